"""Frames that stock clients sent, byte for byte; each file tells where its frames come from."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader

from cluster.protocol import messages as m
from cluster.protocol.api import ApiKey
from cluster.protocol.fetch_codec import FetchRequest
from cluster.protocol.framing import parse_request_header
from cluster.protocol.produce_codec import ProduceRequest
from tests.support.request_decoding import decode_any
from tests.unit.protocol.kio_oracle import converted
from tests.wire.recording_broker import TOPIC_ID

VECTORS = Path(__file__).parent / "vectors"
CASES = [
    pytest.param(file.stem, each, id=f"{file.stem}-{each['api']}-{each['version']}-{index}")
    for file in sorted(VECTORS.glob("*.json"))
    for index, each in enumerate(json.loads(file.read_text())["requests"])
]


def decoded(frame: bytes) -> Any:
    header = parse_request_header(memoryview(frame))
    assert header.client_id == "vectors"
    return decode_any(header.api_key, header.api_version, memoryview(frame), header.body_position)


def vector(client: str, api: str, version: int, number: int = 0) -> Any:
    requests = json.loads((VECTORS / f"{client}.json").read_text())["requests"]
    found = [each for each in requests if (each["api"], each["version"]) == (api, version)]
    return decoded(bytes.fromhex(found[number]["frame"]))


@pytest.mark.parametrize(("client", "request_"), CASES)
def test_every_captured_request_is_read(client: str, request_: Any) -> None:
    frame = bytes.fromhex(request_["frame"])
    key, version = ApiKey[request_["api"]], request_["version"]
    header = parse_request_header(frame)
    assert header[:2] == (key, version)
    ours = decoded(frame)
    theirs: Any
    theirs, size = entity_reader(load_request_schema(key, version))(frame, header.body_position)
    assert header.body_position + size == len(frame) - (3 if _has_trailing_bytes(ours) else 0)
    if key == ApiKey.PRODUCE:
        [(name, topic_id, [(index, records)])] = ours.topics
        assert isinstance(ours, ProduceRequest)
        assert (name, topic_id, index) == ("orders", None, 0)
        assert records == theirs.topic_data[0].partition_data[0].records
        assert b"value" in bytes(records)
    elif key == ApiKey.FETCH:
        assert isinstance(ours, FetchRequest)
        [(name, topic_id, [partition])] = ours.topics
        assert (name, topic_id) == (("orders", None) if version < 13 else (None, TOPIC_ID))
        assert partition.max_bytes == theirs.topics[0].partitions[0].partition_max_bytes
        assert partition.fetch_offset == 0
    else:
        expected = converted(m.REQUESTS[key], theirs)
        if key == ApiKey.DELETE_TOPICS:
            expected.topics = (m.DeleteTopicState(name="new", topic_id=None),)
        assert ours == expected


def _has_trailing_bytes(request: Any) -> bool:
    """librdkafka's request for all topics ends in three bytes that belong to nothing."""
    return isinstance(request, m.MetadataRequest) and request.topics is None


def test_librdkafka_asks_for_all_topics_and_leaves_three_bytes_over() -> None:
    request = vector("librdkafka", "METADATA", 13, 1)
    assert request == m.MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def test_librdkafka_names_itself() -> None:
    request = vector("librdkafka", "API_VERSIONS", 3)
    assert request.client_software_name == "confluent-kafka-python"


def test_librdkafka_fetches_by_topic_id_and_tells_its_rack() -> None:
    request = vector("librdkafka", "FETCH", 16)
    assert request.topics == [(None, TOPIC_ID, [(0, 3, 0, -1, -1, 1048576)])]
    assert (request.rack_id, request.isolation_level, request.session_epoch) == ("a", 1, -1)


@pytest.mark.parametrize(
    ("client", "version", "acks", "timeout_ms"),
    [
        ("librdkafka", 10, -1, 30000),
        ("librdkafka_old", 8, -1, 30000),
        ("kafka_python", 9, -1, 30000),
        ("aiokafka", 7, 1, 40000),
    ],
)
def test_produce_request_of_each_client_is_read(
    client: str, version: int, acks: int, timeout_ms: int
) -> None:
    request = vector(client, "PRODUCE", version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, acks, timeout_ms)


def test_kafka_python_opens_a_fetch_session() -> None:
    request = vector("kafka_python", "FETCH", 12)
    assert (request.session_id, request.session_epoch) == (0, 0)


@pytest.mark.parametrize(("client", "version"), [("librdkafka", 4), ("librdkafka_old", 3)])
def test_librdkafka_creates_a_topic(client: str, version: int) -> None:
    assert vector(client, "CREATE_TOPICS", version) == m.CreateTopicsRequest(
        topics=(
            m.CreatableTopic(
                name="new",
                num_partitions=3,
                replication_factor=2,
                assignments=(),
                configs=(m.CreatableTopicConfig(name="retention.ms", value="1"),),
            ),
        ),
        timeout=timedelta(minutes=1),
        validate_only=False,
    )


@pytest.mark.parametrize(
    ("client", "version"), [("librdkafka", 4), ("librdkafka_old", 3), ("kafka_python", 6)]
)
def test_topics_are_deleted_by_name_in_one_shape(client: str, version: int) -> None:
    request = vector(client, "DELETE_TOPICS", version)
    assert request.topics == (m.DeleteTopicState(name="new", topic_id=None),)


def test_librdkafka_initialises_a_producer() -> None:
    assert vector("librdkafka", "INIT_PRODUCER_ID", 4) == m.InitProducerIdRequest(
        transactional_id=None, transaction_timeout=timedelta(milliseconds=-1)
    )
