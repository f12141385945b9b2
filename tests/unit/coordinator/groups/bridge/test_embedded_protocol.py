"""Subscriptions and assignments of classic consumers, in every version."""

import io
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment import v0 as assignment_v0
from kio.schema.consumer_protocol_assignment import v3 as assignment_v3
from kio.schema.consumer_protocol_subscription import v0, v1, v2, v3
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from cluster.coordinator.groups.bridge.embedded_protocol import (
    MalformedProtocol,
    assignment_bytes,
    read_assignment,
    read_subscription,
    read_version,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PARTITIONS = st.dictionaries(
    TEXTS, st.frozensets(st.integers(0, 2**31 - 1), min_size=1, max_size=4), max_size=3
)


def in_bytes(message, version):
    written = io.BytesIO()
    entity_writer(type(message))(written, message)
    return struct.pack(">h", version) + written.getvalue()


def of_kio(module, partitions):
    return tuple(
        module.data.TopicPartition(topic=TopicName(topic), partitions=tuple(map(i32, numbers)))
        for topic, numbers in partitions.items()
    )


@given(st.frozensets(TEXTS, max_size=3), PARTITIONS, st.none() | TEXTS, st.none() | st.binary())
def test_subscriptions_of_every_version_are_decoded(topics, owned, rack, user_data):
    common = {"topics": tuple(topics), "user_data": user_data}
    for version, module, extra in (
        (0, v0, {}),
        (1, v1, {"owned_partitions": of_kio(v1, owned)}),
        (2, v2, {"owned_partitions": of_kio(v2, owned), "generation_id": i32(7)}),
        (3, v3, {"owned_partitions": of_kio(v3, owned), "generation_id": i32(7), "rack_id": rack}),
    ):
        content = in_bytes(module.ConsumerProtocolSubscription(**common, **extra), version)
        read = read_subscription(content)
        assert read.topics == topics
        assert read.owned == (owned if version else {})
        assert read.rack_id == (rack or None if version == 3 else None)
        assert read_version(content) == version


def test_a_newer_version_is_decoded_as_the_newest_known_one():
    message = v3.ConsumerProtocolSubscription(
        topics=("a",), owned_partitions=(), generation_id=i32(1), rack_id="r"
    )
    content = in_bytes(message, 9) + b"more"
    assert read_subscription(content).rack_id == "r"
    assert read_version(content) == 3


@given(PARTITIONS, st.integers(0, 3))
def test_assignments_are_encoded_as_kafka_does(partitions, version):
    content = assignment_bytes(partitions, version)
    assert content[:2] == struct.pack(">h", version)
    module = assignment_v0 if version == 0 else assignment_v3
    read = entity_reader(module.ConsumerProtocolAssignment)(content[2:], 0)[0]
    assert read.user_data is None
    assert {
        each.topic: frozenset(each.partitions) for each in read.assigned_partitions
    } == partitions
    assert read_assignment(content) == (partitions, b"")


def test_user_data_of_an_assignment_is_decoded():
    message = assignment_v3.ConsumerProtocolAssignment(
        assigned_partitions=of_kio(assignment_v3, {"a": frozenset({1})}), user_data=b"mine"
    )
    assert read_assignment(in_bytes(message, 3)) == ({"a": {1}}, b"mine")


def test_an_empty_assignment_has_no_partitions():
    assert read_assignment(b"") == ({}, b"")


@pytest.mark.parametrize(
    "content",
    [
        b"\0",
        b"\xff\xff",
        b"\0\0\0\0\0\1",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\0\5abc",
        b"\0\0\0\0\0\1\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\1\0\1\xff\0\0\0\0\0\0",
    ],
)
def test_other_bytes_are_malformed(content):
    with pytest.raises(MalformedProtocol):
        read_subscription(content)
    with pytest.raises(MalformedProtocol):
        read_assignment(content)


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_malformed(content):
    with suppress(MalformedProtocol):
        read_subscription(content)
    with suppress(MalformedProtocol):
        read_assignment(content)
