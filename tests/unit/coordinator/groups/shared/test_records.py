"""Records of `__consumer_offsets`: Kafka's bytes in both directions, and malformed bytes.

The hexadecimal texts were written by the generated classes of Apache Kafka 3.9.1.
"""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.groups.shared.records import (
    CommittedOffset,
    OffsetKey,
    StoredGroup,
    StoredMember,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group_value,
    read_key,
    read_offset_value,
)
from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord

GROUP_HEX = "000cd0b3d180d183d0bfd0bfd0b0"
KEY_HEX = f"{GROUP_HEX}00066f726465727300000007"
OFFSETS = {
    0: "00000000001cbe991a14000762792068616e640000018bcfe56801",
    1: "00010000001cbe991a14000762792068616e640000018bcfe568010000018bcfe58f0f",
    2: "00020000001cbe991a14000762792068616e640000018bcfe56801",
    3: "00030000001cbe991a1400000009000762792068616e640000018bcfe56801",
    4: "00040000001cbe991a14000000090862792068616e640000018bcfe5680100",
}
_CONSUMER = "0008636f6e73756d6572"
_HEAD = f"{_CONSUMER}00000003000572616e676500036d2d31"
_CLIENT = "0002636c000a2f3132372e302e302e31"
_TAIL = "0000271000000003010203" + "0000000104"
GROUPS = {
    0: f"0000{_HEAD}0000000100036d2d31{_CLIENT}{_TAIL}",
    1: f"0001{_HEAD}0000000100036d2d31{_CLIENT}0000ea60{_TAIL}",
    2: f"0002{_HEAD}0000018bcfe568020000000100036d2d31{_CLIENT}0000ea60{_TAIL}",
    3: f"0003{_HEAD}0000018bcfe568020000000100036d2d310003732d31{_CLIENT}0000ea60{_TAIL}",
    4: "000409636f6e73756d6572000000030672616e6765046d2d310000018bcfe5680202046d2d310473"
    "2d3103636c0b2f3132372e302e302e310000ea60000027100401020302040000",
}
EMPTY_GROUPS = {
    1: f"0001{_CONSUMER}00000004ffffffff00000000",
    3: f"0003{_CONSUMER}00000004ffffffffffffffffffffffff00000000",
    4: "000409636f6e73756d6572000000040000ffffffffffffffff0100",
}


def an_offset(form: int) -> CommittedOffset:
    return CommittedOffset(
        123_456_789_012,
        9 if form >= 3 else -1,
        "by hand",
        1_700_000_000_001,
        1_700_000_009_999 if form == 1 else -1,
    )


def a_group(form: int) -> StoredGroup:
    member = StoredMember(
        "m-1",
        "s-1" if form >= 3 else None,
        "cl",
        "/127.0.0.1",
        60_000 if form >= 1 else 10_000,
        10_000,
        b"\1\2\3",
        b"\4",
    )
    state_ms = 1_700_000_000_002 if form >= 2 else -1
    return StoredGroup("consumer", 3, "range", "m-1", state_ms, (member,))


@pytest.mark.parametrize("form", [0, 1])
def test_offset_key_encodes_as_kafka(form):
    raw = bytes.fromhex(f"000{form}{KEY_HEX}")
    assert read_key(raw) == OffsetKey("группа", "orders", 7)
    if form == 1:
        assert offset_key("группа", "orders", 7) == raw


def test_group_key_encodes_as_kafka():
    raw = bytes.fromhex(f"0002{GROUP_HEX}")
    assert read_key(raw) == "группа"
    assert group_key("группа") == raw


@pytest.mark.parametrize("form", OFFSETS)
def test_offset_values_of_every_version_are_decoded(form):
    raw = bytes.fromhex(OFFSETS[form])
    assert read_offset_value(raw) == an_offset(form)
    if form in (1, 3):
        assert offset_value(an_offset(form)) == raw


@pytest.mark.parametrize("form", GROUPS)
def test_group_values_of_every_version_are_decoded(form):
    raw = bytes.fromhex(GROUPS[form])
    assert read_group_value(raw) == a_group(form)
    if form == 3:
        assert group_value(a_group(form)) == raw


@pytest.mark.parametrize("form", EMPTY_GROUPS)
def test_groups_without_members(form):
    raw = bytes.fromhex(EMPTY_GROUPS[form])
    group = StoredGroup("consumer", 4, None, None)
    assert read_group_value(raw) == group
    if form == 3:
        assert group_value(group) == raw


@pytest.mark.parametrize("form", [3, 8, 14, 15, 0x7FFF])
def test_keys_of_newer_kinds_are_unknown(form):
    """Versions 3 to 8 belong to the newer consumer protocol, later ones to share and streams
    groups."""
    for rest in ("000167", "", "ffff"):
        with pytest.raises(UnknownRecord, match=f"key of form {form}"):
            read_key(bytes.fromhex(f"{form:04x}{rest}"))


@pytest.mark.parametrize("read", [read_offset_value, read_group_value])
@pytest.mark.parametrize("form", ["0005", "7fff", "ffff"])
def test_values_of_newer_versions_are_unknown(read, form):
    with pytest.raises(UnknownRecord):
        read(bytes.fromhex(f"{form}0000"))


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (read_key, bytes.fromhex(f"0001{KEY_HEX}")),
        (read_key, bytes.fromhex(f"0002{GROUP_HEX}")),
        *((read_offset_value, bytes.fromhex(raw)) for raw in OFFSETS.values()),
        *((read_group_value, bytes.fromhex(raw)) for raw in GROUPS.values()),
    ],
)
def test_truncated_records_are_corrupt(read, raw):
    for size in range(len(raw)):
        with pytest.raises(CorruptRecord):
            read(raw[:size])


def test_unknown_tagged_fields_are_ignored():
    """Kafka 4.1 adds the topic id to an offset in the flexible version."""
    raw = bytes.fromhex(OFFSETS[4][:-2] + "01" + "00" + "10") + bytes(16)
    assert read_offset_value(raw) == an_offset(4)


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (read_key, "0002ffff"),  # a null group
        (read_key, "00020002ff00"),  # not UTF-8
        (read_offset_value, "0003000000000000000500000009ffff0000018bcfe56801"),
        (read_offset_value, "0000000000000000000500ff0000018bcfe56801"),
        (read_group_value, f"0003{_HEAD}0000018bcfe568027fffffff"),  # two thousand million members
        (read_group_value, f"0003{_HEAD}0000018bcfe56802ffffffff"),
        (read_group_value, "0004ffffffffffffffffffff"),
    ],
)
def test_impossible_sizes_are_corrupt(read, raw):
    with pytest.raises(CorruptRecord):
        read(bytes.fromhex(raw))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
BYTES = st.binary(max_size=20)
MEMBERS = st.builds(StoredMember, TEXT, st.none() | TEXT, TEXT, TEXT, NUMBER, NUMBER, BYTES, BYTES)
STORED_GROUPS = st.builds(
    StoredGroup,
    TEXT,
    NUMBER,
    st.none() | TEXT,
    st.none() | TEXT,
    LONG,
    st.lists(MEMBERS, max_size=4).map(tuple),
)


@given(group=TEXT, topic=TEXT, partition=NUMBER)
def test_keys_are_read_as_written(group, topic, partition):
    assert read_key(offset_key(group, topic, partition)) == (group, topic, partition)
    assert read_key(group_key(group)) == group


@given(st.builds(CommittedOffset, LONG, NUMBER, TEXT, LONG, st.just(-1)))
def test_offsets_are_read_as_written(committed):
    assert read_offset_value(offset_value(committed)) == committed


@given(STORED_GROUPS)
def test_groups_are_read_as_written(group):
    assert read_group_value(group_value(group)) == group


@given(
    st.sampled_from([read_key, read_offset_value, read_group_value]),
    st.sampled_from([b"", b"\0\0", b"\0\1", b"\0\2", b"\0\3", b"\0\4"]),
    st.binary(max_size=80),
)
def test_any_bytes_are_read_or_refused(read, form, rest):
    with suppress(CorruptRecord):
        read(form + rest)
