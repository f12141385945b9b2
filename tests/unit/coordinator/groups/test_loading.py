"""Replay of the partition's records, including malformed ones."""

from cluster.coordinator.groups.shared.records import (
    CommittedOffset,
    StoredGroup,
    StoredMember,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from cluster.coordinator.shards.effects import CoordinatorRecord
from tests.support.group_stage import GROUP, GroupStage

ORDERS = ("orders", 0)


def an_offset_record(offset: int, group: str = GROUP) -> CoordinatorRecord:
    value = offset_value(CommittedOffset(offset, -1, "", 1_700_000_000_000))
    return CoordinatorRecord(offset_key(group, *ORDERS), value)


def a_group_record(*members: StoredMember, generation: int = 3) -> CoordinatorRecord:
    leader = members[0].member_id if members else None
    stored = StoredGroup("consumer", generation, "range" if members else None, leader, -1, members)
    return CoordinatorRecord(group_key(GROUP), group_value(stored))


def a_member(number: int, instance: str | None = None) -> StoredMember:
    return StoredMember(f"m-{number}", instance, "cl", "/h", 60_000, 10_000, b"", b"part")


def test_the_newest_record_of_a_key_takes_effect():
    stage = GroupStage().loaded(
        [
            an_offset_record(1),
            a_group_record(a_member(1), a_member(2)),
            an_offset_record(5),
            a_group_record(a_member(2), generation=4),
        ]
    )
    assert stage.committed() == {ORDERS: 5}
    described = stage.described_classic()
    assert [each.member_id for each in described.members] == ["m-2"]
    assert described.state == "Stable"
    report = stage.shard.load_report
    assert report.loaded == {"offsets": 2, "groups": 2}
    assert report.records == 4


def test_records_may_come_twice():
    records = [an_offset_record(5), a_group_record(a_member(1))]
    once, twice = GroupStage().loaded(records), GroupStage().loaded(records * 2)
    assert once.described_classic() == twice.described_classic()
    assert once.committed() == twice.committed() == {ORDERS: 5}


def test_tombstones_remove_what_was_before_them():
    gone = [
        CoordinatorRecord(offset_key(GROUP, *ORDERS), None),
        CoordinatorRecord(group_key(GROUP), None),
    ]
    stage = GroupStage().loaded([*gone, an_offset_record(5), a_group_record(a_member(1)), *gone])
    assert stage.state() == "Dead"
    assert stage.listed() == []
    stage = GroupStage().loaded([a_group_record(a_member(1)), *gone, an_offset_record(6)])
    assert stage.committed() == {ORDERS: 6}
    assert stage.state() == "Empty"
    assert stage.shard.load_report.loaded["tombstones"] == 2


def test_a_group_without_members_is_loaded_as_empty():
    stage = GroupStage().loaded([a_group_record(generation=9)])
    (listed,) = stage.listed()
    assert listed == (GROUP, "consumer", "Empty", "classic")
    _, token = stage.join_new()
    stage.pass_time(10_000)
    assert stage.joined(token).generation_id == 10


def test_unreadable_records_are_counted_and_reported():
    offset, group = an_offset_record(5), a_group_record(a_member(1))
    stage = GroupStage().loaded(
        [
            (None, b"value"),
            (b"", b""),
            (offset.key[:-1], offset.value),
            (offset.key, offset.value[:-1]),
            (group.key, group.value[:-1]),
            (group.key, b"\0\x09"),
            (b"\0\x0b\0\1g", b"\0\0"),
            (b"\0\x0b\0\1h", None),
            offset,
        ]
    )
    assert stage.committed() == {ORDERS: 5}
    report = stage.shard.load_report
    assert report.unknown == {"group of form 9": 1, "key of form 11": 2}
    assert report.corrupt == {
        "no key": 1,
        "key of 0 bytes": 1,
        f"key of form 1 and {len(offset.key) - 1} bytes": 1,
        f"offset of {len(offset.value) - 1} bytes": 1,
        f"group of {len(group.value) - 1} bytes": 1,
    }
    assert report.records == 9


def test_the_load_report_is_bounded():
    stage = GroupStage()
    for size in range(300):
        stage.shard.replay(offset_key(GROUP, *ORDERS), b"\0\0" + bytes(size))
    assert len(stage.shard.load_report.corrupt) <= 101
    assert (
        stage.shard.load_report.corrupt.total() + stage.shard.load_report.loaded["offsets"] == 300
    )


def test_contradictory_members_do_not_stop_the_loading():
    """One instance id twice, one member id twice: no broker writes this."""
    members = [a_member(1, "s-1"), a_member(2, "s-1"), a_member(2, "s-1")]
    stage = GroupStage().loaded([a_group_record(*members)])
    assert len(stage.described_classic().members) == 2
    stage.pass_time(60_000)
    assert stage.state() == "Empty"


def test_offsets_without_a_group_record_belong_to_a_group_that_only_commits():
    stage = GroupStage().loaded([an_offset_record(5, "a"), an_offset_record(6, "b")])
    listed = [(each.group_id, each.protocol_type) for each in stage.listed()]
    assert listed == [("a", ""), ("b", "")]
