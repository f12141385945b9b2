"""Malformed requests get an error code or a closed connection, and do not affect other clients.

Each closed connection leaves exactly one line in the broker's log, which names the peer.
"""

import struct
from collections.abc import Iterator
from random import Random

import pytest
from kio.index import load_response_schema

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.records.batch import Compression, stamp_checksum
from tests.support.broker_probes import (
    assert_closed_with_one_line,
    batch_of,
    fetched,
    list_offsets_request,
    produced,
)
from tests.support.kafka_wire import (
    WireClient,
    fetch_request,
    frame_of,
    header_of,
    metadata_request,
    produce_request,
    request,
    sized,
)
from tests.support.running_cluster import Cluster
from tests.support.topics import (
    create_topic,
    partition_state,
)
from tests.support.waiting import wait_until

LEADER, FOLLOWER = 0, 1
RECORD_COUNT_AT = 57
MAGIC_AT = 16
ATTRIBUTES_AT = 21
# Each host may cause so many lines of a log; those who send much leave their own to the others.
HOST_OF_RANDOM_BYTES, HOST_OF_DAMAGED_REQUESTS = "127.0.0.2", "127.0.0.3"
MIB = 1 << 20


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    return create_topic(cluster, assignments=[[0, 1, 2]])


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient(cluster.addresses[LEADER]) as opened:
        yield opened


@pytest.fixture(autouse=True)
def bystander(cluster: Cluster) -> Iterator[WireClient]:
    """Another connection to the same broker, which must work before and after."""
    with WireClient(cluster.addresses[LEADER]) as opened:
        opened.call(metadata_request())
        yield opened
        assert len(opened.call(metadata_request()).brokers) == 3


# -- frames ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(struct.pack(">i", 2**31 - 1), "2147483647 is not within", id="2-gigabytes"),
        pytest.param(struct.pack(">i", 100 * MIB + 1), "is not within", id="above-the-limit"),
        pytest.param(struct.pack(">i", -1), "-1 is not within", id="negative"),
        pytest.param(struct.pack(">i", -(2**31)), "is not within", id="most-negative"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "is not within", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", id="tls"),
        pytest.param(sized(b""), "too short", id="empty"),
        pytest.param(sized(b"\x00\x03\x00\x0c\x00"), "too short", id="half-a-header"),
        pytest.param(
            sized(struct.pack(">hhih", 3, 1, 1, 1000) + b"abc"),
            "client id",
            id="client-id-too-long",
        ),
        pytest.param(sized(struct.pack(">hhih", 3, 1, 1, -2)), "client id", id="client-id-length"),
        pytest.param(sized(header_of(3, 1, 1, b"\xff\xfe")), "UTF-8", id="client-id-bytes"),
        pytest.param(sized(header_of(3, 9)), "tagged", id="no-tagged-fields"),
        pytest.param(
            sized(header_of(1234, 0) + b"\0"), "API key 1234 is not supported", id="unknown-key"
        ),
        pytest.param(
            sized(header_of(-1, 0) + b"\0"), "API key -1 is not supported", id="negative-key"
        ),
        pytest.param(
            sized(header_of(ApiKey.LEADER_AND_ISR, 0)), "API key 4 is not", id="inter-broker-key"
        ),
        pytest.param(
            sized(header_of(ApiKey.METADATA, 99) + b"\0"), "METADATA version 99", id="new-version"
        ),
        pytest.param(sized(header_of(ApiKey.METADATA, -1)), "METADATA version -1", id="version-1"),
        pytest.param(sized(header_of(ApiKey.PRODUCE, 2)), "PRODUCE version 2", id="old-produce"),
        pytest.param(sized(header_of(ApiKey.FETCH, 3)), "FETCH version 3", id="old-fetch"),
        pytest.param(
            sized(header_of(ApiKey.METADATA, 1) + struct.pack(">i", 2**31 - 1)),
            "malformed MetadataRequest",
            id="huge-array",
        ),
        pytest.param(
            sized(header_of(ApiKey.METADATA, 1) + struct.pack(">i", -7)),
            "malformed MetadataRequest",
            id="negative-array",
        ),
        pytest.param(
            sized(header_of(ApiKey.METADATA, 12) + b"\0\xff\xff\xff\xff\x0f"),
            "malformed MetadataRequest",
            id="huge-compact-array",
        ),
        pytest.param(
            sized(header_of(ApiKey.METADATA, 12) + b"\0" + b"\xff" * 10),
            "malformed MetadataRequest",
            id="endless-varint",
        ),
        pytest.param(
            sized(header_of(ApiKey.METADATA, 1) + struct.pack(">ih", 1, 300) + b"short"),
            "malformed MetadataRequest",
            id="string-beyond-the-end",
        ),
        pytest.param(
            sized(header_of(ApiKey.FETCH, 4) + struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**30)),
            "malformed FetchRequest",
            id="huge-array-of-fetch",
        ),
        pytest.param(
            sized(header_of(ApiKey.PRODUCE, 3) + struct.pack(">hhii", -1, 1, 0, 2**30)),
            "malformed ProduceRequest",
            id="huge-array-of-produce",
        ),
        pytest.param(
            sized(
                header_of(ApiKey.PRODUCE, 3)
                + struct.pack(">hhiih1siii", -1, 1, 0, 1, 1, b"t", 1, 0, 2**30)
            ),
            "malformed ProduceRequest",
            id="records-beyond-the-end",
        ),
    ],
)
def test_malformed_frame_closes_the_connection(
    cluster: Cluster, client: WireClient, bystander: WireClient, sent: bytes, reason: str
) -> None:
    client.send_bytes(sent)

    assert_closed_with_one_line(cluster, client, reason)
    bystander.call(metadata_request())


def test_truncated_frame_closes_the_connection(cluster: Cluster, client: WireClient) -> None:
    name = client.name
    client.send_bytes(client.frame(metadata_request())[:-3])
    client.close()

    (line,) = wait_until(lambda: cluster.log_lines(LEADER, name), f"a line about {name}")
    assert "in the middle of a request" in line


def test_truncated_frame_size_closes_the_connection(cluster: Cluster, client: WireClient) -> None:
    name = client.name
    client.send_bytes(b"\0\0")
    client.close()

    (line,) = wait_until(lambda: cluster.log_lines(LEADER, name), f"a line about {name}")
    assert "in the middle of a request" in line


def test_connection_closed_between_requests_is_not_logged(
    cluster: Cluster, client: WireClient
) -> None:
    name = client.name
    client.call(metadata_request())
    client.close()

    with WireClient(cluster.addresses[LEADER]) as later:
        later.send_bytes(struct.pack(">i", -1))
        assert_closed_with_one_line(cluster, later, "-1")
    assert cluster.log_lines(LEADER, name) == []


def test_requests_before_the_bad_one_are_answered(cluster: Cluster, client: WireClient) -> None:
    good = client.frame(metadata_request())
    client.send_bytes(good + good + sized(header_of(1234, 0) + b"\0"))

    for _ in range(2):
        client.receive_frame()
    assert_closed_with_one_line(cluster, client, "API key 1234")


def test_answer_to_an_unknown_version_of_api_versions(client: WireClient) -> None:
    client.send_bytes(sized(header_of(ApiKey.API_VERSIONS, 99, 7) + b"\0\x05what\x02x\0"))

    schema = load_response_schema(ApiKey.API_VERSIONS, 0)
    answer = client.parse(client.receive_frame(), schema, 7)
    assert answer.error_code == ErrorCode.unsupported_version
    (versions,) = (key for key in answer.api_keys if key.api_key == ApiKey.API_VERSIONS)
    assert versions.min_version == 0
    assert versions.max_version >= 3
    # The connection goes on with a version that is known.
    answer = client.call(
        request(ApiKey.API_VERSIONS, 3, client_software_name="x", client_software_version="1")
    )
    assert answer.error_code == ErrorCode.none
    assert {key.api_key for key in answer.api_keys} >= {0, 1, 2, 3, 18, 19, 20, 22, 32, 37, 60}


def test_random_bytes_close_the_connection(cluster: Cluster, bystander: WireClient) -> None:
    dice = Random(20_260_801)
    names = []
    for _ in range(150):
        with WireClient(cluster.addresses[LEADER], source_host=HOST_OF_RANDOM_BYTES) as client:
            names.append(client.name)
            data = dice.randbytes(dice.choice([1, 5, 30, 300, 5000]))
            if dice.random() < 0.7:  # with a size that fits, it goes further
                data = sized(data)
            client.send_bytes(data)
        bystander.call(metadata_request())
    assert_no_tracebacks(cluster)
    log = cluster.log_text(f"broker-{LEADER}")
    # Two connections one after the other may have been given the same port.
    assert any(f" {name}:" in log for name in names)
    assert all(log.count(f" {name}:") <= names.count(name) for name in names)


def test_damaged_requests_close_only_their_connection(
    cluster: Cluster, topic: str, bystander: WireClient
) -> None:
    dice = Random(20_260_802)
    requests = [
        produce_request(topic, bytes(batch_of(b"v")), version=version) for version in (3, 8, 9, 12)
    ]
    requests += [fetch_request(topic, 0, version=version) for version in (4, 7, 11, 12)]
    requests += [metadata_request(topic, version=version) for version in (4, 8, 12)]
    requests += [list_offsets_request(topic, -1, version=version) for version in (1, 4, 6, 7)]
    requests += [
        request(
            ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1
        ),
        request(ApiKey.INIT_PRODUCER_ID, 2, transactional_id=None, transaction_timeout=1000),
        request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            replica_id=-1,
            topics=[
                {
                    "topic": topic,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
            ],
        ),
        request(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[{"resource_type": 2, "resource_name": topic, "configuration_keys": None}],
            include_synonyms=True,
            include_documentation=True,
        ),
    ]
    for message in requests:
        for _ in range(40):
            frame = bytearray(frame_of(message, 1)[4:])
            for _ in range(dice.randint(1, 3)):
                # The key and version stay, so that the damage reaches the API's own decoder.
                frame[dice.randrange(8, len(frame))] = dice.randrange(256)
            if dice.random() < 0.3:
                del frame[dice.randrange(8, len(frame)) :]
            with WireClient(
                cluster.addresses[LEADER], source_host=HOST_OF_DAMAGED_REQUESTS
            ) as client:
                client.send_bytes(sized(bytes(frame)))
        bystander.call(metadata_request())
    assert_no_tracebacks(cluster)


def assert_no_tracebacks(cluster: Cluster) -> None:
    assert "Traceback" not in cluster.log_text(f"broker-{LEADER}")


# -- produce -----------------------------------------------------------------------------------


def with_flipped_byte() -> bytes:
    batch = batch_of(b"value")
    batch[-1] ^= 1
    return bytes(batch)


def restamped(position: int, layout: str, value: int) -> bytes:
    """A batch with one header field changed, and the checksum to go with it."""
    batch = batch_of(b"one", b"two")
    struct.pack_into(layout, batch, position, value)
    stamp_checksum(memoryview(batch))
    return bytes(batch)


def old_message_set() -> bytes:
    """A message set of format v1."""
    body = struct.pack(">bbq", 1, 0, 1_000) + struct.pack(">i1si5s", 1, b"k", 5, b"value")
    return struct.pack(">qiI", 0, len(body) + 4, 0) + body


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(with_flipped_byte(), ErrorCode.corrupt_message, id="checksum"),
        pytest.param(bytes(batch_of(b"v"))[:-1], ErrorCode.corrupt_message, id="cut-off"),
        pytest.param(bytes(batch_of(b"v"))[:30], ErrorCode.corrupt_message, id="half-a-header"),
        pytest.param(bytes(batch_of(b"v")) + b"x", ErrorCode.corrupt_message, id="one-byte-more"),
        pytest.param(bytes(200), ErrorCode.invalid_record, id="zeros"),
        pytest.param(b"", ErrorCode.invalid_record, id="no-batch"),
        pytest.param(None, ErrorCode.invalid_record, id="null"),
        pytest.param(
            bytes(batch_of(bytes(1_100_000))), ErrorCode.message_too_large, id="too-large"
        ),
        pytest.param(
            restamped(RECORD_COUNT_AT, ">i", 3), ErrorCode.invalid_record, id="record-count"
        ),
        pytest.param(
            restamped(RECORD_COUNT_AT, ">i", -1), ErrorCode.invalid_record, id="negative-count"
        ),
        pytest.param(bytes(batch_of(b"1") * 2), ErrorCode.invalid_record, id="two-batches"),
        pytest.param(old_message_set(), ErrorCode.invalid_record, id="magic-1"),
        pytest.param(restamped(MAGIC_AT, ">b", 3), ErrorCode.invalid_record, id="magic-3"),
        pytest.param(
            restamped(ATTRIBUTES_AT, ">h", 7),
            ErrorCode.unsupported_compression_type,
            id="unknown-codec",
        ),
        pytest.param(
            bytes(batch_of(b"v", is_control=True)), ErrorCode.invalid_record, id="control-batch"
        ),
        pytest.param(
            bytes(batch_of(b"v", is_transactional=True)),
            ErrorCode.transactional_id_authorization_failed,  # the request has no such id
            id="transactional",
        ),
        pytest.param(
            bytes(batch_of(b"v", base_offset=5)), ErrorCode.invalid_record, id="base-offset"
        ),
    ],
)
def test_invalid_batches_are_refused(
    client: WireClient, topic: str, records: bytes | None, code: ErrorCode
) -> None:
    before = fetched(client, topic, 0).high_watermark

    answer = produced(client, topic, records)

    assert ErrorCode(answer.error_code) is code
    assert answer.base_offset == -1
    assert fetched(client, topic, 0).high_watermark == before
    assert produced(client, topic, bytes(batch_of(b"good"))).base_offset == before


def test_damaged_compressed_records_are_refused_or_stored_as_sent(
    client: WireClient, topic: str
) -> None:
    """The broker does not look inside, so readers are protected by the checksum alone."""
    batch = batch_of(b"v" * 500, codec=Compression.ZSTD)
    batch[61:65] = b"\0\0\0\0"

    assert produced(client, topic, bytes(batch)).error_code == ErrorCode.corrupt_message


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_invalid_acks_are_refused(client: WireClient, topic: str, acks: int) -> None:
    answer = produced(client, topic, bytes(batch_of(b"v")), acks=acks)

    assert answer.error_code == ErrorCode.invalid_required_acks


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_produce_to_an_unknown_partition_is_refused(
    client: WireClient, topic: str, partition: int
) -> None:
    answer = produced(client, topic, bytes(batch_of(b"v")), partition=partition)

    assert answer.error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("name", ["missing", "", "a/b", "../../etc", "x" * 300, "ü", "."])
def test_unknown_and_invalid_topic_names_are_refused(client: WireClient, name: str) -> None:
    unknown = ErrorCode.unknown_topic_or_partition
    assert produced(client, name, bytes(batch_of(b"v"))).error_code == unknown
    assert fetched(client, name, 0).error_code == unknown
    ((offsets,),) = (one.partitions for one in client.call(list_offsets_request(name, -1)).topics)
    assert offsets.error_code == unknown
    (described,) = client.call(metadata_request(name)).topics
    expected = unknown if name == "missing" else ErrorCode.invalid_topic_exception
    assert described.error_code == expected


def test_produce_to_a_follower_names_the_leader(cluster: Cluster, topic: str) -> None:
    epoch = partition_state(cluster, topic, 0, FOLLOWER).leader_epoch
    message = produce_request(topic, bytes(batch_of(b"v")), version=10)
    with WireClient(cluster.addresses[FOLLOWER]) as client:
        answer = client.call(message)

    ((partition,),) = (one.partition_responses for one in answer.responses)
    assert partition.error_code == ErrorCode.not_leader_or_follower
    assert partition.current_leader.leader_id == LEADER
    assert partition.current_leader.leader_epoch == epoch
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (LEADER, *cluster.addresses[LEADER])


def test_produce_error_closes_the_connection_when_acks_is_0(
    cluster: Cluster, client: WireClient, topic: str
) -> None:
    client.send(produce_request(topic, with_flipped_byte(), acks=0))

    assert_closed_with_one_line(cluster, client, "corrupt_message")


def test_one_refused_partition_does_not_keep_others_from_being_written(
    cluster: Cluster, client: WireClient
) -> None:
    name = create_topic(cluster, assignments=[[0, 1], [0, 2], [1, 0]])
    good, bad = bytes(batch_of(b"v")), with_flipped_byte()
    answer = client.call(
        request(
            ApiKey.PRODUCE,
            9,
            transactional_id=None,
            acks=-1,
            timeout=5_000,
            topic_data=[
                {
                    "name": name,
                    "partition_data": [
                        {"index": 1, "records": bad},
                        {"index": 0, "records": good},
                        {"index": 2, "records": good},
                        {"index": 3, "records": good},
                    ],
                },
                {"name": "missing", "partition_data": [{"index": 0, "records": good}]},
            ],
        )
    )

    assert [
        (topic.name, partition.index, ErrorCode(partition.error_code), partition.base_offset)
        for topic in answer.responses
        for partition in topic.partition_responses
    ] == [
        (name, 1, ErrorCode.corrupt_message, -1),
        (name, 0, ErrorCode.none, 0),
        (name, 2, ErrorCode.not_leader_or_follower, -1),
        (name, 3, ErrorCode.unknown_topic_or_partition, -1),
        ("missing", 0, ErrorCode.unknown_topic_or_partition, -1),
    ]
