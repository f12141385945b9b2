"""Batches of a stream are added to the windows once each, whatever was killed in between."""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra `windows`")

from cluster.analytics.rollup.follow_checkpoint import (
    BadCheckpoint,
    FollowCheckpoint,
    Subject,
)
from cluster.analytics.rollup.follow_output import (
    LATE_MS,
    Batch,
    BatchMismatch,
    FollowedOutput,
    go_on,
)
from cluster.analytics.windows import merge_plans
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.manifest import Progress
from cluster.analytics.windows.store import LocalStore
from cluster.model.clocks import MonotonicMs
from tests.support.examples import examples
from tests.support.follow_checkpoints import plan_batch
from tests.support.metric_records import START_MS, Record, quota_record
from tests.support.reference_windows import every_kind
from tests.support.window_directories import (
    FailingStore,
    Killed,
    NthOperation,
    assert_read,
    merge_all,
    piece,
    runner,
)

SUBJECT = Subject("metrics", "id-1", "schema", "cluster-1")
RECORDS = every_kind(3, seconds=12)
NOW_MS = MonotonicMs(1_000)
HOUR_MS = START_MS - START_MS % 3_600_000


class Following:
    """A following process."""

    def __init__(self, place: Path, store: LocalStore | None = None, **how: timedelta) -> None:
        self.directory = WindowDirectory.open(store or LocalStore(place / "out"))
        self.checkpoint = FollowCheckpoint(place / "checkpoint")
        start = self.directory.manifest.progress or Progress("metrics", "id-1", {}, "cluster-1")
        go_on(self.checkpoint, SUBJECT, start.offsets)
        self.output = FollowedOutput(self.directory, self.checkpoint, start, NOW_MS, **how)
        self.run = runner(self.directory.store)

    def take(self, number: int, records: Sequence[Record]) -> Batch:
        """Plan a batch of these records and add it."""
        return self.output.take(number, lambda: [piece(self.directory, records)])


@contextlib.contextmanager
def following(
    place: Path, store: LocalStore | None = None, **how: timedelta
) -> Iterator[Following]:
    found = Following(place, store, **how)
    try:
        yield found
    finally:
        found.directory.close()


@pytest.mark.slow
@examples(15)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.sampled_from(["planned", "read", "added", "committed"])),
        min_size=1,
        max_size=4,
    )
)
def test_each_record_is_in_the_windows_once(tmp_path_factory, steps):
    """A process plans, reads, adds and commits batches, and is killed after each of these steps."""
    place = tmp_path_factory.mktemp("follow")
    at = 0
    for size, killed_when in [*steps, (len(RECORDS), "committed")]:
        with following(place) as process:
            checkpoint = process.checkpoint
            last = checkpoint.last_batch()
            if last is not None and not checkpoint.is_committed(last):  # Spark repeats it
                begin, at = checkpoint.start_of(last).get(0, 0), checkpoint.end_of(last)[0]
                process.take(last, RECORDS[begin:at])
                plan_batch(checkpoint, last, {0: at}, is_committed=True)
            number = 0 if last is None else last + 1
            end = min(at + size, len(RECORDS))
            plan_batch(checkpoint, number, {0: end})
            if killed_when == "read":
                piece(process.directory, RECORDS[at:end], "unnamed")
            elif killed_when != "planned":
                process.take(number, RECORDS[at:end])
                at = end
            if killed_when == "committed":
                plan_batch(checkpoint, number, {0: end}, is_committed=True)
    assert_read(place / "out", RECORDS)


def test_a_batch_that_was_added_is_not_read_when_it_runs_again(tmp_path):
    with following(tmp_path) as process:
        plan_batch(process.checkpoint, 0, {0: 2})
        first = process.take(0, RECORDS[:2])

    def read() -> list[PieceResult]:
        raise AssertionError("it is in the windows")

    with following(tmp_path) as process:
        again = process.output.take(0, read)
    assert first.result is not None
    assert again.result is None
    assert again.reached == {0: 2}


@pytest.mark.no_cover
@pytest.mark.parametrize("number", range(1, 30, 3))
def test_a_process_killed_at_any_operation_leaves_the_batch_in_the_windows_or_to_run_again(
    tmp_path, number
):
    place = tmp_path / "out"
    with following(tmp_path) as process:
        plan_batch(process.checkpoint, 0, {0: len(RECORDS)})
    killed = NthOperation(number, Killed)
    with contextlib.suppress(Killed), following(tmp_path, FailingStore(place, killed)) as process:
        process.take(0, RECORDS)
        process.output.merge_some(process.run, 2, NOW_MS)
    with following(tmp_path) as process:
        process.take(0, RECORDS)
        assert_read(place, RECORDS)
        merge_all(process.directory)
    assert_read(place, RECORDS)


def test_a_batch_that_begins_elsewhere_than_the_windows_end_is_refused(tmp_path):
    with following(tmp_path) as process:
        plan_batch(process.checkpoint, 0, {0: 5})
        plan_batch(process.checkpoint, 1, {0: 9})
        with pytest.raises(BatchMismatch):
            process.take(1, RECORDS[5:9])
        assert process.directory.manifest.progress is None


def test_after_a_rollup_that_did_not_follow_the_batches_begin_anew(tmp_path):
    with following(tmp_path) as process:
        plan_batch(process.checkpoint, 0, {0: 5})
        process.take(0, RECORDS[:5])
        other = piece(process.directory, RECORDS[5:9], "other")
        process.directory.append([other], Progress("metrics", "id-1", {0: 9}, "cluster-1"))
        assert not go_on(process.checkpoint, SUBJECT, {0: 9})
        assert process.checkpoint.last_batch() is None
        assert process.checkpoint.start_of(0) == {0: 9}


@pytest.mark.parametrize(
    "subject",
    [
        Subject("metrics", "id-2", "schema", "cluster-1"),
        Subject("metrics", "id-1", "wider", "cluster-1"),
    ],
    ids=["a topic that was made again", "a version with other columns"],
)
def test_batches_of_another_subject_begin_anew(tmp_path, subject):
    with following(tmp_path) as process:
        plan_batch(process.checkpoint, 0, {0: 5})
        assert not go_on(process.checkpoint, subject, {0: 0})
        assert process.checkpoint.last_batch() is None


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (Subject("other", "id-1", "schema"), "it belongs to topic metrics"),
        (
            Subject("metrics", "id-1", "schema", "cluster-2"),
            "it belongs to another cluster, cluster-1",
        ),
    ],
)
def test_a_checkpoint_about_something_else_is_refused(tmp_path, subject, why):
    with following(tmp_path) as process:
        with pytest.raises(BadCheckpoint, match=why):
            go_on(process.checkpoint, subject, {})
        assert process.checkpoint.subject() == SUBJECT


def test_windows_close_when_the_watermark_passes_them(tmp_path):
    with following(tmp_path, watermark=timedelta(seconds=30)) as process:
        new, late = (quota_record(ts=START_MS + 1000 * second) for second in (101, 70))
        for number, records in enumerate(([new], [late])):
            plan_batch(process.checkpoint, number, {0: 10 * (number + 1)})
            batch = process.take(number, records)
            assert batch.closed_until is not None
            assert batch.closed_until.timestamp() * 1000 == START_MS + 70_000


def hours_on(count: int) -> Record:
    return quota_record(ts=START_MS + count * 3_600_000)


def test_hours_that_are_over_are_merged_one_at_a_time(tmp_path):
    records = [hours_on(count) for count in range(4)]
    with following(tmp_path) as process:
        assert process.output.merge_some(process.run, 2, NOW_MS) is None
        plan_batch(process.checkpoint, 0, {0: 4})
        process.take(0, records)
        for _ in range(3):
            merged = process.output.merge_some(process.run, 2, NOW_MS)
            assert merged is not None
            assert merged.windows["quota"]["10s"] == 1
        assert process.output.merge_some(process.run, 2, NOW_MS) is None
        assert len(process.directory.manifest.deltas) == 1
    assert_read(tmp_path / "out", records)


def test_a_large_hour_is_merged_unit_by_unit_while_batches_come(tmp_path, monkeypatch):
    monkeypatch.setattr(merge_plans, "UNIT_ROWS", 2)
    minutes = [quota_record(ts=HOUR_MS + minute * 60_000) for minute in range(1, 60, 6)]
    late = quota_record(ts=HOUR_MS + 30 * 60_000)
    after = [quota_record(ts=HOUR_MS + 3_600_000 + minute * 60_000) for minute in (2, 3, 4)]
    with following(tmp_path) as process:
        plan_batch(process.checkpoint, 0, {0: 11})
        process.take(0, [*minutes, after[0]])
        for number, records in enumerate(([late, after[1]], [after[2]]), 1):
            assert process.output.merge_some(process.run, 2, NOW_MS) is None
            assert process.output.is_merging
            plan_batch(process.checkpoint, number, {0: 11 + number})
            process.take(number, records)
        merged = process.output.merge_some(process.run, 2, NOW_MS)
        assert merged is not None
        assert merged.units == 5
        assert not process.output.is_merging
        assert process.output.merge_some(process.run, 2, NOW_MS) is None, "what is late waits"
        assert_read(tmp_path / "out", [*minutes, late, *after])
    with following(tmp_path) as process:
        merge_all(process.directory)
        assert_read(tmp_path / "out", [*minutes, late, *after])


def test_late_records_of_merged_hours_wait_and_come_in_once(tmp_path):
    with following(tmp_path) as process:
        plan_batch(process.checkpoint, 0, {0: 4})
        process.take(0, [hours_on(count) for count in range(3)])
        while process.output.merge_some(process.run, 2, NOW_MS):
            pass
        plan_batch(process.checkpoint, 1, {0: 6})
        process.take(1, [hours_on(0), hours_on(1)])
        assert process.output.merge_some(process.run, 2, NOW_MS) is None
        later = MonotonicMs(NOW_MS + LATE_MS)
        assert process.output.merge_some(process.run, 2, later) is not None
        plan_batch(process.checkpoint, 2, {0: 7})
        process.take(2, [hours_on(0)])
        assert process.output.merge_some(process.run, 2, later) is not None, "the other hour"
        assert process.output.merge_some(process.run, 2, later) is None, "as often as that"
        assert_read(tmp_path / "out", [hours_on(count) for count in (0, 1, 2, 0, 1, 0)])
