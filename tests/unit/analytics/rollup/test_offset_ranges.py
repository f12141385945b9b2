"""Ranges are cut into groups without losing or repeating an offset."""

from random import Random

from cluster.analytics.rollup.offset_ranges import OffsetRange, grouped, split


def offsets(ranges) -> list[tuple[int, int]]:
    return [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]


def size(group) -> int:
    return sum(each.size for each in group)


def test_groups_hold_the_same_offsets():
    dice = Random(3)
    for _ in range(200):
        starts = [dice.randrange(50) for _ in range(dice.randrange(1, 5))]
        ranges = [
            OffsetRange(partition, start, start + dice.randrange(400))
            for partition, start in enumerate(starts)
        ]
        tasks, smallest = dice.randrange(1, 9), dice.randrange(1, 100)
        groups = grouped(ranges, tasks, smallest)
        assert offsets(each for group in groups for each in group) == offsets(ranges)
        assert len(groups) <= tasks
        assert all(each.size > 0 for group in groups for each in group)
        assert all(size(group) >= smallest for group in groups[:-1])


def test_one_long_partition_keeps_every_core_busy():
    groups = grouped([OffsetRange(0, 5, 400_005)], 4, 50_000)
    assert [size(group) for group in groups] == [100_000] * 4


def test_short_partitions_are_one_task():
    ranges = [OffsetRange(number, 0, 100) for number in range(3)]
    assert grouped(ranges, 4, 50_000) == [tuple(ranges)]


def test_a_partition_is_split_into_equal_pieces_that_are_worth_it():
    assert [each.size for each in split([OffsetRange(0, 5, 400_005)], 4)] == [100_000] * 4
    assert split([OffsetRange(0, 0, 50_000)], 4) == (OffsetRange(0, 0, 50_000),)
