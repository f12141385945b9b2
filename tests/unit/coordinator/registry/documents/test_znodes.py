"""Kafka's paths and documents."""

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.cluster import BrokerRegistration, DoubtfulLog, Endpoint
from cluster.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from cluster.model.log_condition import INTACT, LogCondition, LogEnd
from tests.support.examples import examples

REGISTRATION = BrokerRegistration(
    id=BrokerId(1),
    epoch=BrokerEpoch(17),
    endpoints=(
        Endpoint("INTERNAL", "SASL_SSL", "broker.example", 9093),
        Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092),
    ),
    rack="r1",
    control_endpoint="tcp://127.0.0.1:5000",
    replication_endpoint="tcp://127.0.0.1:5001",
    machine="m",
)


def broker_ids(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(one) for one in ids)


def test_a_registration_is_kafkas_document_with_our_part_beside_it() -> None:
    document = znodes.encode_broker(REGISTRATION, 1_700_000_000_000)
    fields = json.loads(document)
    assert fields["version"] == 5
    assert fields["endpoints"] == ["INTERNAL://broker.example:9093", "PLAINTEXT://[::1]:9092"]
    assert fields["listener_security_protocol_map"] == {
        "INTERNAL": "SASL_SSL",
        "PLAINTEXT": "PLAINTEXT",
    }
    assert (fields["host"], fields["port"]) == ("::1", 9092)
    assert fields["timestamp"] == "1700000000000"
    assert znodes.decode_broker(BrokerId(1), document, BrokerEpoch(17)) == REGISTRATION


def test_the_registration_of_a_kafka_broker_is_read() -> None:
    document = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":'
        b'["PLAINTEXT://host:9092"],"jmx_port":-1,"port":9092,"host":"host","version":5,'
        b'"timestamp":"1700000000000"}'
    )
    registration = znodes.decode_broker(BrokerId(3), document, BrokerEpoch(1))
    assert registration.endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),)
    assert registration.rack is None
    assert registration.control_endpoint == ""


def test_topics_and_partitions() -> None:
    topic_id = uuid.UUID(int=5)
    assignment = znodes.TopicAssignment(
        topic_id, {0: broker_ids(1, 2), 1: broker_ids(2, 1)}, {0: broker_ids(3)}, {}
    )
    document = znodes.encode_topic(assignment)
    assert json.loads(document)["partitions"] == {"0": [1, 2], "1": [2, 1]}
    assert json.loads(document)["version"] == 3
    assert znodes.decode_topic(document) == assignment
    old = znodes.decode_topic(b'{"version":1,"partitions":{"0":[1]}}')
    assert old == znodes.TopicAssignment(None, {0: broker_ids(1)})
    state = znodes.PartitionStateRecord(
        BrokerId(1), LeaderEpoch(0), broker_ids(1, 2, 3), ControllerEpoch(1)
    )
    document = znodes.encode_partition_state(state)
    assert (
        document == b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'
    )
    assert znodes.decode_partition_state(document) == state
    with_more = state._replace(
        eligible=broker_ids(4),
        doubtful=(DoubtfulLog(BrokerId(5), LeaderEpoch(-1), Offset(0)),),
    )
    document = znodes.encode_partition_state(with_more)
    assert json.loads(document)["milena"] == {"eligible": [4], "doubtful": [[5, -1, 0]]}
    assert znodes.decode_partition_state(document) == with_more


@pytest.mark.parametrize(
    "condition",
    [
        INTACT,
        LogCondition(frozenset()),
        LogCondition(
            frozenset(TopicPartition("t", number) for number in (0, 1, 2, 5)),
            frozenset([TopicPartition("u", 3)]),
            True,
            {TopicPartition("t", 5): LogEnd(LeaderEpoch(2), Offset(17))},
        ),
    ],
)
def test_the_condition_of_logs_is_part_of_a_registration(condition: LogCondition) -> None:
    broker = replace(REGISTRATION, condition=condition)
    document = znodes.encode_broker(broker, 1)
    assert znodes.decode_broker(broker.id, document, broker.epoch) == broker


def test_log_directories() -> None:
    generations = {"abc": 4, "def": 1}
    document = znodes.encode_log_directories(generations)
    assert znodes.decode_log_directories(document) == generations


def test_small_documents() -> None:
    controller = znodes.encode_controller(BrokerId(2), 5)
    assert json.loads(controller)["timestamp"] == "5"
    assert znodes.decode_controller(controller) == 2
    assert znodes.decode_controller(b'{"version":1,"brokerid":4,"timestamp":"1"}') == 4
    assert znodes.decode_controller_epoch(znodes.encode_controller_epoch(ControllerEpoch(7))) == 7
    assert znodes.encode_cluster_id("abc") == b'{"version":"1","id":"abc"}'
    assert znodes.decode_cluster_id(b'{"version":"1","id":"abc"}') == "abc"
    assert znodes.decode_entity_config(znodes.encode_entity_config({"a": "1"})) == {"a": "1"}
    assert znodes.decode_entity_config(b"") == {}
    secret = bytes(range(32))
    assert znodes.decode_login_secret(znodes.encode_login_secret(secret)) == secret
    change = znodes.encode_config_change("topics/orders")
    assert change == b'{"version":2,"entity_path":"topics/orders"}'
    assert znodes.decode_config_change(change) == "topics/orders"
    block = znodes.ProducerIdBlock(BrokerId(1), 0, 999)
    document = znodes.encode_producer_id_block(block)
    assert document == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert znodes.decode_producer_id_block(document) == block


HOSTILE = (
    b"[" * 100_000,
    b'{"partitions":{"0":[Infinity]}}',
    b'{"partitions":{"0":[99999999999]}}',
    b'{"partitions":{"0":[1]},"adding_replicas":{"0":[1e999]}}',
    b'{"leader":Infinity,"leader_epoch":0,"isr":[],"controller_epoch":0}',
    b'{"leader":1,"leader_epoch":1e30,"isr":[],"controller_epoch":0}',
    b'{"leader":1,"leader_epoch":0,"isr":[4294967296],"controller_epoch":0}',
    b'{"leader":1,"leader_epoch":-1,"isr":[1],"controller_epoch":0}',
    b'{"partitions":{"-1":[1]}}',
    b'{"brokerid":Infinity}',
    b'{"id":"\\ud800"}',
    b'{"entity_path":"\\udfff"}',
    b'{"secret":"AAAA"}',
    b'{"secret":"no Base64"}',
)


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"{}", b"\xff", b'{"partitions":3}', *HOSTILE]
)
@pytest.mark.parametrize(
    "decode",
    [
        znodes.decode_topic,
        znodes.decode_partition_state,
        znodes.decode_controller,
        znodes.decode_cluster_id,
        znodes.decode_login_secret,
        znodes.decode_config_change,
        znodes.decode_producer_id_block,
        znodes.decode_reassignments,
        znodes.decode_elections,
    ],
)
def test_other_documents_are_value_errors(
    decode: Callable[[bytes], object], document: bytes
) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text quotes the document
        decode(document)


def test_a_text_of_digits_is_no_list_of_brokers() -> None:
    document = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":"12"}]}'
    with pytest.raises(ValueError, match="'12' is not a list of broker ids"):
        znodes.decode_reassignments(document)


SOME_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "partitions", "topic", "partition", "replicas"]), inner
        )
    ),
    max_leaves=12,
)


@example({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]})
@given(SOME_JSON)
@examples(200)
def test_any_json_asks_for_reassignments_and_elections_or_is_refused(document: object) -> None:
    text = json.dumps(document).encode()
    for decode in (znodes.decode_reassignments, znodes.decode_elections):
        with suppress(ValueError):
            for topic, number in decode(text):
                assert (type(topic), type(number)) == (str, int)
    with suppress(ValueError):
        targets = znodes.decode_reassignments(text)
        assert znodes.decode_reassignments(znodes.encode_reassignments(targets)) == targets


def test_paths() -> None:
    orders = TopicPartition("orders", 3)
    assert paths.broker(BrokerId(1)) == "/brokers/ids/1"
    assert paths.partition_state(orders) == "/brokers/topics/orders/partitions/3/state"
    assert paths.entity_config(paths.TOPIC_CONFIGS, "orders") == "/config/topics/orders"
    assert paths.delete_topic("orders") == "/admin/delete_topics/orders"
    user = paths.entity_config(paths.USER_CONFIGS, "CN=a b,O=*")
    assert user == "/config/users/CN%3Da%20b%2CO%3D%2A"
    assert paths.desanitized(paths.sanitized("a~é/%")) == "a~é/%"
