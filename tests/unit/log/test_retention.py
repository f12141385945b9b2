"""Which segments are deleted: the oldest, each for a reason, and only committed ones."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.log.options import LogOptions
from cluster.log.retention import (
    LogState,
    Reason,
    count_deletable,
    pinned_until,
    reason_text,
)
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset

NOW_MS = WallMs(1_700_000_000_000)
DAY_MS = 24 * 3_600_000
MANY = 1_000_000


def a_segment(base_offset: int, size_bytes: int, age_ms: int | None, modified_age_ms: int) -> Any:
    """A segment whose age comes from its records, or from its file if they have no timestamps."""
    return SimpleNamespace(
        base_offset=base_offset,
        file=SimpleNamespace(size_bytes=size_bytes),
        max_timestamp_ms=-1 if age_ms is None else NOW_MS - age_ms,
        modified_ms=NOW_MS - modified_age_ms,
    )


def a_log(
    segments: list[Any],
    options: LogOptions,
    *,
    log_start: int = 0,
    last_count: int = 10,
    high_watermark: int | None = None,
) -> LogState:
    end = segments[-1].base_offset + (last_count if segments[-1].file.size_bytes else 0)
    return LogState(
        segments,
        sum(segment.file.size_bytes for segment in segments),
        Offset(log_start),
        Offset(end),
        Offset(end if high_watermark is None else high_watermark),
        options,
    )


def count(state: LogState, reason: Reason, most: int = MANY) -> int:
    return count_deletable(state, reason, NOW_MS, lambda segment: segment.modified_ms, most)  # type: ignore[attr-defined]  # of the stand-ins


AGED = [a_segment(10 * n, 100, (5 - n) * DAY_MS, 0) for n in range(5)]
"""Five segments of 100 bytes and 10 records, from five days to one day old."""


@pytest.mark.parametrize(
    ("retention_ms", "expected"),
    [
        (-1, 0),
        (5 * DAY_MS, 0),  # a segment of exactly that age is not older
        (5 * DAY_MS - 1, 1),
        (2 * DAY_MS, 3),
        (DAY_MS - 1, 5),  # including the active one
        (0, 5),
    ],
)
def test_retention_by_age(retention_ms: int, expected: int) -> None:
    assert count(a_log(AGED, LogOptions(retention_ms=retention_ms)), Reason.AGE) == expected


@pytest.mark.parametrize(
    ("retention_bytes", "expected"),
    [(-1, 0), (600, 0), (500, 0), (401, 0), (400, 1), (399, 1), (100, 4), (0, 5)],
)
def test_retention_by_size(retention_bytes: int, expected: int) -> None:
    """Segments are deleted while at least `retention_bytes` stay."""
    assert count(a_log(AGED, LogOptions(retention_bytes=retention_bytes)), Reason.SIZE) == expected


@pytest.mark.parametrize(("log_start", "expected"), [(0, 0), (9, 0), (10, 1), (39, 3), (50, 4)])
def test_retention_below_the_log_start(log_start: int, expected: int) -> None:
    """The active segment stays even when all of its records are deleted."""
    state = a_log(AGED, LogOptions(is_deleted=False, retention_ms=0), log_start=log_start)
    assert count(state, Reason.LOG_START) == expected


def test_retention_by_age_and_size_skips_compacted_topics() -> None:
    options = LogOptions(is_deleted=False, retention_ms=0, retention_bytes=0)
    state = a_log(AGED, options)
    assert [count(state, reason) for reason in Reason] == [0, 0, 0]


@pytest.mark.parametrize(
    ("high_watermark", "expected"), [(0, 0), (19, 1), (20, 2), (49, 4), (50, 5)]
)
def test_uncommitted_segments_stay(high_watermark: int, expected: int) -> None:
    options = LogOptions(retention_ms=0, retention_bytes=0)
    state = a_log(AGED, options, high_watermark=high_watermark)
    assert count(state, Reason.AGE) == expected
    assert count(state, Reason.SIZE) == expected


def test_an_active_segment_without_records_stays() -> None:
    segments = [*AGED, a_segment(50, 0, None, 9 * DAY_MS)]
    options = LogOptions(retention_ms=0, retention_bytes=0)
    assert count(a_log(segments, options), Reason.AGE) == 5
    assert count(a_log(segments, options), Reason.SIZE) == 5
    assert count(a_log(segments[-1:], options), Reason.AGE) == 0


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    segments = [a_segment(0, 100, None, 3 * DAY_MS), a_segment(10, 100, None, DAY_MS)]
    state = a_log(segments, LogOptions(retention_ms=2 * DAY_MS))
    assert count(state, Reason.AGE) == 1
    assert "based on the last modified time of the segment" in reason_text(
        Reason.AGE, state, has_timestamps=False
    )


def test_a_young_segment_keeps_the_older_ones_behind_it() -> None:
    segments = [a_segment(0, 100, 0, 0), *AGED[1:]]
    assert count(a_log(segments, LogOptions(retention_ms=DAY_MS)), Reason.AGE) == 0


def test_retention_deletes_at_most_the_given_number() -> None:
    assert count(a_log(AGED, LogOptions(retention_ms=0)), Reason.AGE, most=2) == 2


@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    ages=st.data(),
    retention_bytes=st.integers(-1, 10_000),
    retention_ms=st.integers(-1, 1000),
    log_start=st.integers(0, 250),
    high_watermark=st.integers(0, 250),
)
def test_retention_deletes_no_more_than_the_limits_demand(
    sizes: list[int],
    ages: st.DataObject,
    retention_bytes: int,
    retention_ms: int,
    log_start: int,
    high_watermark: int,
) -> None:
    segments = [
        a_segment(10 * n, size, ages.draw(st.integers(-500, 1500)), 0)
        for n, size in enumerate(sizes)
    ]
    options = LogOptions(retention_bytes=retention_bytes, retention_ms=retention_ms)
    state = a_log(segments, options, log_start=log_start, high_watermark=high_watermark)
    ends = [*(segment.base_offset for segment in segments[1:]), int(state.log_end_offset)]

    for reason in Reason:
        gone = count(state, reason)
        assert gone == sum(count(state, reason, most) > most - 1 for most in range(1, gone + 2))
        assert all(end <= high_watermark for end in ends[:gone])

    kept_bytes = state.size_bytes - sum(sizes[: count(state, Reason.SIZE)])
    assert retention_bytes < 0 or kept_bytes >= min(retention_bytes, state.size_bytes)
    ages_gone = [NOW_MS - one.max_timestamp_ms for one in segments[: count(state, Reason.AGE)]]
    assert all(age > retention_ms >= 0 for age in ages_gone)


def test_a_future_timestamp_is_reported_with_the_day_until_which_it_pins_the_log() -> None:
    future = [a_segment(0, 100, -2 * DAY_MS, 0), *AGED[1:]]
    assert pinned_until(a_log(future, LogOptions(retention_ms=DAY_MS)), NOW_MS) == (
        "2023-11-17 22:13 UTC"
    )
    assert pinned_until(a_log(AGED, LogOptions(retention_ms=DAY_MS)), NOW_MS) is None
    assert pinned_until(a_log(future, LogOptions(retention_ms=-1)), NOW_MS) is None
    assert pinned_until(a_log(future, LogOptions(is_deleted=False)), NOW_MS) is None
    a_little = [a_segment(0, 100, -3_000, 0)]
    assert pinned_until(a_log(a_little, LogOptions()), NOW_MS) is None
    far = [a_segment(0, 100, NOW_MS - 2**62, 0)]
    assert pinned_until(a_log(far, LogOptions()), NOW_MS) == "9999-12-31 23:59 UTC"
