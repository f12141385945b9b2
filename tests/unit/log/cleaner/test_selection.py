"""The cleanable range of a log, as Kafka's LogCleanerManager computes it."""

import pytest

from cluster.log.cleaner.selection import (
    Cleanable,
    LogBounds,
    SegmentFacts,
    find_cleanable,
    first_dirty_offset,
)
from cluster.log.options import CleaningPolicy
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset

NOW_MS = WallMs(1_000_000)
OFFSETS = [Offset(n) for n in (0, 100, 200, 300)]
"""The last one is active."""


def find(
    *,
    dirty: int = 0,
    start: int = 0,
    stable: int = 350,
    largest=(10, 20, 30, 40),
    first=(5, 15, 25, 35),
    policy: CleaningPolicy | None = None,
) -> Cleanable | None:
    return find_cleanable(
        OFFSETS,
        SegmentFacts(lambda slot: 1_000 + slot, largest.__getitem__, first.__getitem__),
        LogBounds(Offset(start), Offset(350), Offset(dirty), Offset(stable)),
        policy or CleaningPolicy(),
        NOW_MS,
    )


def test_all_closed_segments_of_a_log_that_was_never_cleaned():
    assert find() == (0, 300, 0, 3_003, False)


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        (100, (100, 300, 1_000, 2_003, False)),
        # In the middle of a segment: Kafka counts that one on both sides.
        (150, (150, 300, 2_001, 2_003, False)),
        (299, (299, 300, 3_003, 1_002, False)),
        (300, None),
        (340, None),
    ],
)
def test_the_dirty_part_begins_where_the_last_cleaning_ended(dirty, expected):
    assert find(dirty=dirty) == expected


@pytest.mark.parametrize(
    ("stable", "upper"), [(0, None), (99, None), (100, 100), (299, 200), (300, 300), (350, 300)]
)
def test_selection_ends_below_the_stable_offset(stable, upper):
    found = find(stable=stable)
    assert (None if found is None else found.upper_offset) == upper


@pytest.mark.parametrize(("dirty", "start", "first"), [(0, 150, 150), (351, 20, 20), (60, 50, 60)])
def test_a_checkpoint_outside_of_the_log_counts_as_its_start(dirty, start, first):
    bounds = LogBounds(Offset(start), Offset(350), Offset(dirty), Offset(350))
    assert first_dirty_offset(bounds) == first


def test_selection_skips_young_segments_and_all_later_ones():
    policy = CleaningPolicy(min_lag_ms=1_000)
    limit = NOW_MS - 1_000
    assert find(largest=(limit, limit + 1, 0, 0), policy=policy).upper_offset == 100
    assert find(largest=(limit + 1, 0, 0, 0), policy=policy) is None
    assert find(dirty=100, largest=(limit + 1, limit, limit, 0), policy=policy).upper_offset == 300


def test_a_log_with_an_old_dirty_record_is_cleaned_at_any_ratio():
    policy = CleaningPolicy(min_dirty_ratio=1.0, max_lag_ms=1_000)
    limit = NOW_MS - 1_000
    young = find(dirty=200, first=(0, 0, limit, 0), policy=policy)
    old = find(dirty=200, first=(0, 0, limit - 1, 0), policy=policy)
    assert (young.is_worth_while(policy), old.is_worth_while(policy)) == (False, True)
    # Timestamps that records do not have say nothing.
    assert not find(dirty=200, first=(0, 0, -1, 0), policy=policy).is_overdue


def test_the_ratio_must_be_exceeded():
    cleanable = Cleanable(Offset(1), Offset(2), 500, 500, is_overdue=False)
    assert cleanable.dirty_ratio == 0.5
    assert not cleanable.is_worth_while(CleaningPolicy(min_dirty_ratio=0.5))
    assert cleanable.is_worth_while(CleaningPolicy(min_dirty_ratio=0.49))
    empty = Cleanable(Offset(1), Offset(2), 0, 0, is_overdue=True)
    assert not empty.is_worth_while(CleaningPolicy(min_dirty_ratio=0.0))


def test_first_timestamps_are_not_looked_up_without_a_limit():
    def ask(_slot: int) -> int:
        raise AssertionError("this costs a look into a file")

    facts = SegmentFacts(lambda slot: 1, ask, ask)
    bounds = LogBounds(Offset(0), Offset(350), Offset(0), Offset(350))
    assert find_cleanable(OFFSETS, facts, bounds, CleaningPolicy(), NOW_MS) is not None
