"""Ranges are cut without losing or doubling an offset."""

from random import Random

from cluster.analytics.rollup.offset_ranges import OffsetRange, from_text, split, to_text


def offsets(ranges) -> list[tuple[int, int]]:
    return [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]


def test_pieces_hold_the_same_offsets():
    dice = Random(3)
    for _ in range(200):
        starts = [dice.randrange(50) for _ in range(dice.randrange(1, 5))]
        ranges = [
            OffsetRange(partition, start, start + dice.randrange(400))
            for partition, start in enumerate(starts)
        ]
        pieces = split(ranges, dice.randrange(1, 9), smallest=dice.randrange(1, 100))
        assert offsets(pieces) == offsets(ranges)
        assert all(piece.size > 0 for piece in pieces)


def test_one_long_partition_keeps_every_core_busy():
    assert [piece.size for piece in split([OffsetRange(0, 5, 400_005)], 4)] == [100_000] * 4


def test_a_short_one_is_not_worth_cutting():
    assert split([OffsetRange(0, 0, 50_000)], 4) == (OffsetRange(0, 0, 50_000),)


def test_ranges_come_back_from_their_text():
    ranges = (OffsetRange(0, 1, 2), OffsetRange(7, 0, 1 << 40))
    assert from_text(to_text(ranges)) == ranges
