"""Clients that are not clients: every mistake gets its error code or a closed connection, alone.

What closes a connection leaves exactly one line in the broker's log, which names the peer.
"""

import struct
import uuid
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import psutil
import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from cluster.protocol.api import ApiKey
from cluster.records.batch import Compression, stamp_checksum
from cluster.records.builder import NewRecord, build_batch
from cluster.records.reader import read_records
from tests.support.kafka_wire import (
    ClosedByPeer,
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
    controller,
    create_topic,
    create_topics_request,
    partition_state,
    unique_name,
)
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

LEADER, FOLLOWER = 0, 1
RECORD_COUNT_AT = 57
MAGIC_AT = 16
ATTRIBUTES_AT = 21
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


def batch_of(*values: bytes, **options: Any) -> bytearray:
    return build_batch([NewRecord(value, b"k", 1_000) for value in values], **options)


def produced(client: WireClient, topic: str, records: bytes | None, **options: Any) -> Any:
    """The answer for the one partition of a produce request."""
    answer = client.call(produce_request(topic, records, **options))
    ((partition,),) = (one.partition_responses for one in answer.responses)
    return partition


def fetched(client: WireClient, topic: str, offset: int, **options: Any) -> Any:
    """The answer for the one partition of a fetch request."""
    answer = client.call(fetch_request(topic, offset, **options))
    assert answer.error_code == ErrorCode.none
    ((partition,),) = (one.partitions for one in answer.responses)
    return partition


def assert_closed_with_one_line(
    cluster: Cluster, client: WireClient, reason: str, broker: int = LEADER
) -> None:
    name = client.name
    assert client.wait_for_close() == b""
    (line,) = wait_until(lambda: cluster.log_lines(broker, name), f"a line about {name}")
    assert reason in line
    assert "WARNING" in line


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
def test_frames_that_close_the_connection(
    cluster: Cluster, client: WireClient, bystander: WireClient, sent: bytes, reason: str
) -> None:
    client.send_bytes(sent)

    assert_closed_with_one_line(cluster, client, reason)
    bystander.call(metadata_request())


def test_frame_that_ends_too_early(cluster: Cluster, client: WireClient) -> None:
    name = client.name
    client.send_bytes(client.frame(metadata_request())[:-3])
    client.close()

    (line,) = wait_until(lambda: cluster.log_lines(LEADER, name), f"a line about {name}")
    assert "in the middle of a request" in line


def test_size_that_ends_too_early(cluster: Cluster, client: WireClient) -> None:
    name = client.name
    client.send_bytes(b"\0\0")
    client.close()

    (line,) = wait_until(lambda: cluster.log_lines(LEADER, name), f"a line about {name}")
    assert "in the middle of a request" in line


def test_connection_that_ends_between_requests_is_not_worth_a_line(
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


def test_random_bytes(cluster: Cluster, bystander: WireClient) -> None:
    dice = Random(20_260_801)
    names = []
    for _ in range(150):
        with WireClient(cluster.addresses[LEADER]) as client:
            names.append(client.name)
            data = dice.randbytes(dice.choice([1, 5, 30, 300, 5000]))
            if dice.random() < 0.7:  # with a size that fits, it goes further
                data = sized(data)
            client.send_bytes(data)
        bystander.call(metadata_request())
    assert_no_tracebacks(cluster)
    log = cluster.log_text(f"broker-{LEADER}")
    assert max(log.count(f" {name}:") for name in names) == 1


def test_damaged_requests(cluster: Cluster, topic: str, bystander: WireClient) -> None:
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
            with WireClient(cluster.addresses[LEADER]) as client:
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
        pytest.param(bytes(200), ErrorCode.unsupported_for_message_format, id="zeros"),
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
        pytest.param(old_message_set(), ErrorCode.unsupported_for_message_format, id="magic-1"),
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
            ErrorCode.invalid_txn_state,
            id="transactional",
        ),
        pytest.param(
            bytes(batch_of(b"v", base_offset=5)), ErrorCode.invalid_record, id="base-offset"
        ),
    ],
)
def test_refused_batches(
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
def test_invalid_acks(client: WireClient, topic: str, acks: int) -> None:
    answer = produced(client, topic, bytes(batch_of(b"v")), acks=acks)

    assert answer.error_code == ErrorCode.invalid_required_acks


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_produce_to_an_unknown_partition(client: WireClient, topic: str, partition: int) -> None:
    answer = produced(client, topic, bytes(batch_of(b"v")), partition=partition)

    assert answer.error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("name", ["missing", "", "a/b", "../../etc", "x" * 300, "ü", "."])
def test_unknown_and_invalid_topic_names(client: WireClient, name: str) -> None:
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


def test_error_of_acks_0_closes_the_connection(
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


# -- fetch and offsets -------------------------------------------------------------------------


def list_offsets_request(
    topic: str, timestamp: int, *, version: int = 7, leader_epoch: int = -1
) -> Any:
    return request(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": 0,
                        "current_leader_epoch": leader_epoch,
                        "timestamp": timestamp,
                    }
                ],
            }
        ],
    )


def test_fetch_out_of_range(client: WireClient, topic: str) -> None:
    assert produced(client, topic, bytes(batch_of(b"v"))).error_code == ErrorCode.none
    end = fetched(client, topic, 0).high_watermark

    assert fetched(client, topic, end + 1).error_code == ErrorCode.offset_out_of_range
    assert fetched(client, topic, -1).error_code == ErrorCode.offset_out_of_range
    assert fetched(client, topic, 2**62).error_code == ErrorCode.offset_out_of_range
    at_end = fetched(client, topic, end)
    assert at_end.error_code == ErrorCode.none
    assert not at_end.records


def test_leader_epochs_are_compared(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=2).start()
    name = create_topic(cluster, assignments=[[0, 1]])
    cluster.restart(0)  # leadership moves to 1
    epoch = wait_until(
        lambda: (state := partition_state(cluster, name, 0, 1)) and state.leader_epoch,
        "a second epoch",
    )

    with WireClient(cluster.addresses[1]) as client:
        produced(client, name, bytes(batch_of(b"v")))
        for asked, code in [
            (epoch, ErrorCode.none),
            (epoch - 1, ErrorCode.fenced_leader_epoch),
            (epoch + 1, ErrorCode.unknown_leader_epoch),
        ]:
            answer = fetched(client, name, 0, leader_epoch=asked)
            assert answer.error_code == code
            offsets = client.call(list_offsets_request(name, -1, leader_epoch=asked))
            assert offsets.topics[0].partitions[0].error_code == code


def test_fetch_from_a_follower_is_refused(cluster: Cluster, topic: str) -> None:
    with WireClient(cluster.addresses[FOLLOWER]) as client:
        answer = fetched(client, topic, 0)

    assert answer.error_code == ErrorCode.not_leader_or_follower
    assert answer.current_leader.leader_id == LEADER


def test_requests_by_topic_id(cluster: Cluster, client: WireClient, topic: str) -> None:
    (described,) = client.call(metadata_request(topic)).topics
    known, unknown = described.topic_id, uuid.uuid4()
    batch = bytes(batch_of(b"by id"))
    for topic_id, code in [(known, ErrorCode.none), (unknown, ErrorCode.unknown_topic_id)]:
        message = produce_request(topic_id, batch, version=13)
        ((partition,),) = (one.partition_responses for one in client.call(message).responses)
        assert partition.error_code == code
        message = fetch_request(topic_id, 0, version=16)
        ((partition,),) = (one.partitions for one in client.call(message).responses)
        assert partition.error_code == code

    with WireClient(cluster.addresses[FOLLOWER]) as other:
        answer = other.call(fetch_request(known, 0, version=16))
    ((partition,),) = (one.partitions for one in answer.responses)
    assert partition.error_code == ErrorCode.not_leader_or_follower
    assert partition.current_leader.leader_id == LEADER
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (LEADER, *cluster.addresses[LEADER])


def test_fetch_limits_that_make_no_sense(client: WireClient, topic: str) -> None:
    batch = bytes(batch_of(b"v"))
    produced(client, topic, batch)

    for max_bytes in (-1, 0, 1, -(2**31)):
        answer = fetched(client, topic, 0, max_bytes=max_bytes)
        assert answer.error_code == ErrorCode.none
        assert len(answer.records) >= len(batch)  # the first batch is returned whole
    assert fetched(client, topic, 0, max_wait_ms=-5, min_bytes=-5).error_code == ErrorCode.none


def test_unknown_timestamps_of_list_offsets(client: WireClient, topic: str) -> None:
    ((offsets,),) = (one.partitions for one in client.call(list_offsets_request(topic, -77)).topics)

    assert offsets.error_code != ErrorCode.none


# -- topics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("refused", {"replication_factor": 4}, ErrorCode.invalid_replication_factor),
        ("refused", {"replication_factor": -2}, ErrorCode.invalid_replication_factor),
        ("refused", {"partitions": 0}, ErrorCode.invalid_partitions),
        ("refused", {"partitions": -2}, ErrorCode.invalid_partitions),
        ("", {}, ErrorCode.invalid_topic_exception),
        ("..", {}, ErrorCode.invalid_topic_exception),
        ("../up", {}, ErrorCode.invalid_topic_exception),
        ("x" * 250, {}, ErrorCode.invalid_topic_exception),
        (
            "refused",
            {"partitions": -1, "replication_factor": -1, "assignments": [[0, 0]]},
            ErrorCode.invalid_replica_assignment,
        ),
        (
            "refused",
            {"partitions": -1, "replication_factor": -1, "assignments": [[0], [0, 1]]},
            ErrorCode.invalid_replica_assignment,
        ),
        ("refused", {"configs": {"min.insync.replicas": "0"}}, ErrorCode.invalid_config),
    ],
)
def test_refused_topics(
    cluster: Cluster, name: str, options: dict[str, Any], code: ErrorCode
) -> None:
    with WireClient(cluster.addresses[controller(cluster)]) as client:
        (answer,) = client.call(create_topics_request(name, **options)).topics

    assert ErrorCode(answer.error_code) is code
    assert answer.error_message


def test_only_the_controller_creates_topics(cluster: Cluster) -> None:
    other = next(broker for broker in range(3) if broker != controller(cluster))
    with WireClient(cluster.addresses[other]) as client:
        (answer,) = client.call(create_topics_request("elsewhere")).topics

    assert answer.error_code == ErrorCode.not_controller


def test_names_that_differ_in_a_dot_collide(cluster: Cluster) -> None:
    name = create_topic(cluster, unique_name("a.b"), replication_factor=1)
    with WireClient(cluster.addresses[controller(cluster)]) as client:
        (answer,) = client.call(create_topics_request(name.replace(".", "_"))).topics

    assert answer.error_code == ErrorCode.invalid_topic_exception


# -- many, slow and greedy clients -------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(cluster: Cluster, client: WireClient) -> None:
    name = create_topic(cluster, assignments=[[0, 1, 2]])
    frames, kinds = [], []
    for number in range(200):
        match number % 5:
            case 0:
                message = produce_request(name, bytes(batch_of(b"%d" % number)), acks=-1)
            case 1:
                message = produce_request(name, bytes(batch_of(b"%d" % number)), acks=1)
            case 2:  # waits: there is nothing at the end yet
                message = fetch_request(name, 0, max_wait_ms=5, min_bytes=MIB)
            case 3:
                message = metadata_request(name)
            case _:
                message = list_offsets_request(name, -1)
        frames.append(client.frame(message))
        kinds.append(number % 5)

    client.send_bytes(b"".join(frames))

    offsets = []
    for kind in kinds:
        answer = client.receive()
        if kind in (0, 1):
            ((partition,),) = (one.partition_responses for one in answer.responses)
            assert partition.error_code == ErrorCode.none
            offsets.append(partition.base_offset)
        elif kind == 2:
            ((partition,),) = (one.partitions for one in answer.responses)
            assert partition.high_watermark in (len(offsets), len(offsets) - 1)
        elif kind == 3:
            assert [topic.name for topic in answer.topics] == [name]
    assert offsets == list(range(80))


def test_acks_0_between_other_requests(cluster: Cluster, client: WireClient) -> None:
    name = create_topic(cluster, assignments=[[0, 1, 2]])
    frames = []
    for number in range(50):
        silent = produce_request(name, bytes(batch_of(b"%d" % number)), acks=0)
        frames.append(frame_of(silent, 1_000_000 + number))
        frames.append(client.frame(metadata_request(name)))

    client.send_bytes(b"".join(frames))

    for _ in range(50):
        assert [topic.name for topic in client.receive().topics] == [name]
    wait_until(lambda: fetched(client, name, 0).high_watermark == 50, "all to be committed")
    values = [record.value for record in read_records(fetched(client, name, 0).records)]
    assert values == [b"%d" % number for number in range(50)]


def test_request_byte_by_byte(client: WireClient, topic: str) -> None:
    before = fetched(client, topic, 0).high_watermark
    for byte in client.frame(produce_request(topic, bytes(batch_of(b"drop by drop")))):
        client.send_bytes(bytes([byte]))

    ((partition,),) = (one.partition_responses for one in client.receive().responses)
    assert (partition.error_code, partition.base_offset) == (ErrorCode.none, before)


@pytest.fixture(scope="module")
def fifty_megabytes(cluster: Cluster) -> tuple[str, bytes]:
    """A topic of one replica, and one of its fifty equal batches as it was produced."""
    name = create_topic(cluster, assignments=[[0]])
    batch = bytes(batch_of(Random(1).randbytes(1_000_000)))
    with WireClient(cluster.addresses[LEADER]) as client:
        for number in range(50):
            assert produced(client, name, batch, acks=1).base_offset == number
    return name, batch


def test_client_that_reads_no_answers_stalls_nobody(
    cluster: Cluster, bystander: WireClient, fifty_megabytes: tuple[str, bytes]
) -> None:
    name, _ = fifty_megabytes
    broker = psutil.Process(cluster.pid(LEADER))
    before = broker.memory_full_info().uss
    with WireClient(cluster.addresses[LEADER], receive_buffer=4096) as silent:
        for _ in range(40):  # two gigabytes of answers
            silent.send(fetch_request(name, 0, max_bytes=55 * MIB))
        for _ in range(200):
            bystander.call(metadata_request())
            assert produced(bystander, name, bytes(batch_of(b"meanwhile")), acks=1).base_offset > 0
        assert broker.memory_full_info().uss < before + 32 * MIB
        with pytest.raises((ClosedByPeer, TimeoutError)):
            raise_when_full(silent)


def raise_when_full(client: WireClient) -> None:
    """Send until the broker takes no more: it reads no request of who reads no answers."""
    client.set_timeout(0.5)
    while True:
        client.send_bytes(frame_of(metadata_request(), 1) * 1000)


def test_slow_reader_gets_fifty_megabytes(
    cluster: Cluster, bystander: WireClient, fifty_megabytes: tuple[str, bytes]
) -> None:
    name, batch = fifty_megabytes
    with WireClient(cluster.addresses[LEADER], receive_buffer=4096) as slow:
        slow.send(fetch_request(name, 0, max_bytes=55 * MIB))
        (size,) = struct.unpack(">i", slow.receive_bytes(4))
        assert size > 50 * len(batch)
        frame = bytearray()
        while len(frame) < size:
            frame += slow.receive_bytes(min(MIB, size - len(frame)))
            bystander.call(metadata_request())  # somebody else has a turn after every megabyte
    answer = WireClient.parse(bytes(frame), load_response_schema(ApiKey.FETCH, 12), 1)
    ((partition,),) = (one.partitions for one in answer.responses)
    records = list(read_records(partition.records))
    assert [record.offset for record in records[:50]] == list(range(50))
    assert {record.value for record in records[:50]} == {next(iter(read_records(batch))).value}


# -- limits of the server ----------------------------------------------------------------------


def test_connections_per_address(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1, overrides={"max.connections.per.ip": "5"}).start()
    clients = [WireClient(cluster.addresses[0]) for _ in range(5)]
    for client in clients:
        client.call(metadata_request())

    with WireClient(cluster.addresses[0]) as sixth:
        assert_closed_with_one_line(cluster, sixth, "max.connections.per.ip", broker=0)
    clients.pop().close()

    def admitted() -> bool:
        with WireClient(cluster.addresses[0]) as another:
            try:
                return bool(another.call(metadata_request()).brokers)
            except ClosedByPeer:
                return False

    wait_until(admitted, "the freed place")
    for client in clients:
        client.call(metadata_request())
        client.close()


def test_connections_above_the_limit_wait_for_a_place(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1, overrides={"max.connections": "3"}).start()
    clients = [WireClient(cluster.addresses[0]) for _ in range(3)]
    for client in clients:
        client.call(metadata_request())

    with WireClient(cluster.addresses[0], timeout_s=0.3) as fourth:
        fourth.send(metadata_request())
        with pytest.raises(TimeoutError):
            fourth.receive_bytes(1)
        clients.pop().close()
        fourth.set_timeout(10.0)
        assert len(fourth.receive().brokers) == 1
    for client in clients:
        client.close()


def test_idle_connections_are_closed(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1, overrides={"connections.max.idle.ms": "700"}).start()
    name = create_topic(cluster, replication_factor=1)
    with (
        WireClient(cluster.addresses[0]) as idle,
        WireClient(cluster.addresses[0]) as busy,
        WireClient(cluster.addresses[0]) as waiting,
    ):
        idle.call(metadata_request())
        waiting.send(fetch_request(name, 0, max_wait_ms=2_500))  # waits longer than that
        closed = False

        def is_closed() -> bool:
            nonlocal closed
            busy.call(metadata_request())
            idle.set_timeout(0.05)
            try:
                closed = idle.wait_for_close() == b""
            except TimeoutError:
                return False
            return closed

        wait_until(is_closed, "the idle connection to be closed")
        busy.call(metadata_request())
        ((partition,),) = (one.partitions for one in waiting.receive().responses)
        assert partition.error_code == ErrorCode.none


# -- somebody else's data directory ------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "theirs"), [("broker.id", "7"), ("cluster.id", "AAAAAAAAAAAAAAAAAAAAAA")]
)
def test_data_directory_of_another(new_cluster: NewCluster, key: str, theirs: str) -> None:
    cluster = new_cluster(brokers=1).start()
    ours = {"broker.id": "0", "cluster.id": cluster.status()["cluster_id"]}[key]
    cluster.stop()
    properties = cluster.log_dir(0) / "meta.properties"
    text = properties.read_text()
    assert f"{key}={ours}" in text
    properties.write_text(text.replace(f"{key}={ours}", f"{key}={theirs}"))

    failed = cluster.command("start", "--detach", "--port=0", "--registry-port=0", check=False)

    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith("Cannot start")]
    assert theirs in line
    assert ours in line
    assert str(cluster.log_dir(0)) in line
    properties.write_text(text)
    cluster.start()


def test_data_directory_in_use(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1).start()

    again = cluster.command("start", "--detach")

    assert "already running" in again.stdout
