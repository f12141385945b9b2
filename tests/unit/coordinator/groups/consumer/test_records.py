"""The bytes of records of groups of the newer consumer protocol."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.groups.consumer.records import (
    CONSUMER_KEYS,
    WITHOUT_NAME,
    ConsumerKey,
    assignment_epoch_value,
    consumer_key,
    current_value,
    epoch_value,
    expression_value,
    member_value,
    read_assignment_epoch_value,
    read_consumer_key,
    read_current_value,
    read_epoch_value,
    read_expression_value,
    read_member_value,
    read_target_value,
    target_value,
)
from cluster.coordinator.groups.requests import GroupProtocol
from cluster.coordinator.groups.state.consumer_values import (
    ClassicMetadata,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
)
from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord

TOPIC = uuid.UUID(bytes=bytes(range(16)))
TEXTS = st.text(max_size=20)
MAYBE = st.none() | TEXTS
NUMBERS = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.dictionaries(
    st.uuids(), st.frozensets(st.integers(0, 2**31 - 1), min_size=1, max_size=5), max_size=4
)
CLASSIC = st.none() | st.builds(
    ClassicMetadata,
    NUMBERS,
    st.lists(st.builds(GroupProtocol, TEXTS, st.binary(max_size=300)), max_size=3).map(tuple),
)
MEMBERS = st.builds(
    MemberMetadata, MAYBE, MAYBE, TEXTS, TEXTS, st.frozensets(TEXTS), MAYBE, NUMBERS, MAYBE, CLASSIC
)
CURRENT = st.builds(
    CurrentAssignment, NUMBERS, NUMBERS, st.sampled_from(MemberState), PARTITIONS, PARTITIONS
)

VALUES = [
    (epoch_value, read_epoch_value, st.builds(GroupEpoch, NUMBERS, LONG)),
    (member_value, read_member_value, MEMBERS),
    (assignment_epoch_value, read_assignment_epoch_value, NUMBERS),
    (target_value, read_target_value, PARTITIONS),
    (current_value, read_current_value, CURRENT),
    (
        expression_value,
        read_expression_value,
        st.builds(ResolvedExpression, st.frozensets(TEXTS), LONG, LONG),
    ),
]


@pytest.mark.parametrize(("write", "read", "values"), VALUES)
def test_records_are_decoded_as_encoded(write, read, values):
    @given(values)
    def check(value):
        raw = write(value)
        assert read(raw) == value
        for end in range(len(raw)):
            with pytest.raises(CorruptRecord):
                read(raw[:end])

    check()


@pytest.mark.parametrize(("write", "read", "values"), VALUES)
def test_any_bytes_are_decoded_or_refused(write, read, values):
    del write, values

    @given(st.binary(max_size=60))
    def check(raw):
        try:
            read(b"\0\0" + raw)
        except CorruptRecord:
            return

    check()
    with pytest.raises(UnknownRecord):
        read(b"\0\x01")


@pytest.mark.parametrize("kind", ConsumerKey)
def test_keys_are_encoded_as_kafka_does(kind: ConsumerKey) -> None:
    name = "" if kind in WITHOUT_NAME else "mitglied-ä"
    raw = consumer_key(kind, "gruppe-ö", name)
    assert raw[:2] in CONSUMER_KEYS
    assert read_consumer_key(raw) == (kind, "gruppe-ö", name)
    for end in range(2, len(raw)):
        with pytest.raises(CorruptRecord):
            read_consumer_key(raw[:end])


def test_values_are_encoded_as_kafka_does() -> None:
    """The bytes were composed by hand from the schemas of Kafka 4.1."""
    assert consumer_key(ConsumerKey.MEMBER, "g", "m") == b"\0\x05\0\x01g\0\x01m"
    assert consumer_key(ConsumerKey.EPOCH, "g") == b"\0\x03\0\x01g"
    assert epoch_value(GroupEpoch(7, 0)) == b"\0\0\0\0\0\x07\0"
    assert epoch_value(GroupEpoch(7, -2)) == b"\0\0\0\0\0\x07\x01\0\x08" + b"\xff" * 7 + b"\xfe"
    assert assignment_epoch_value(7) == b"\0\0\0\0\0\x07\0"
    numbers = frozenset({2, 0})
    topic = TOPIC.bytes + b"\x03\0\0\0\0\0\0\0\x02\0"
    assert target_value({TOPIC: numbers}) == b"\0\0\x02" + topic + b"\0"
    current = CurrentAssignment(9, 8, MemberState.UNREVOKED_PARTITIONS, {}, {TOPIC: numbers})
    assert current_value(current) == (
        b"\0\0\0\0\0\x09\0\0\0\x08\x01" + b"\x01" + b"\x02" + topic + b"\0"
    )
    resolved = ResolvedExpression(frozenset({"b", "a"}), 5, 6)
    assert expression_value(resolved) == (
        b"\0\0\x03\x02a\x02b" + bytes(7) + b"\x05" + bytes(7) + b"\x06\0"
    )
    member = MemberMetadata(None, "r", "c", "/h", frozenset({"t"}), None, 300_000, "range")
    begin = b"\0\0\0\x02r\x02c\x03/h\x02\x02t\0\0\x04\x93\xe0\x06range"
    assert member_value(member) == begin + b"\x01\0\x01\0"


def test_a_member_without_the_tag_is_classic() -> None:
    """The default of Kafka's schema is an empty structure, not null."""
    value = member_value(MemberMetadata())
    assert read_member_value(value[:-4] + b"\0").classic == ClassicMetadata()


def test_a_state_of_a_newer_broker_is_unknown() -> None:
    value = current_value(CurrentAssignment(1, 0, MemberState.STABLE, {}, {}))
    assert read_current_value(value[:10] + b"\x63" + value[11:]).state is MemberState.UNKNOWN


def test_unknown_tagged_fields_are_ignored() -> None:
    value = epoch_value(GroupEpoch(7, 5))
    assert read_epoch_value(value[:6] + b"\x02\x09\x01x" + value[7:]) == GroupEpoch(7, 5)
