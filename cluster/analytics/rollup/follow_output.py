"""Adds the batches of a stream to the windows, each exactly once whatever is killed in between.

Spark plans a batch in the checkpoint, then it is added to the windows, then Spark commits it. The
manifest of the windows has their position, so a batch that Spark repeats after a kill is skipped if
the windows have it, and read again otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cluster.analytics.rollup.follow_checkpoint import BadCheckpoint, FollowCheckpoint, Subject
from cluster.analytics.rollup.pieces import together
from cluster.analytics.rollup.stream_offsets import Offsets, are_equal, records_between
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.directory import (
    LATE_AFTER,
    Merged,
    RunMerges,
    WindowDirectory,
    closed_until,
)
from cluster.analytics.windows.manifest import Progress
from cluster.analytics.windows.merge import HourTask, MergeResult
from cluster.analytics.windows.widths import NARROWEST, WIDTHS_S
from cluster.model.clocks import MonotonicMs

LATE_MS: Final = 10 * 60_000
"""How long late records of merged hours may wait, so that an hour is not rewritten for each."""
_WIDTH: Final = timedelta(seconds=WIDTHS_S[NARROWEST])


class BatchMismatch(Exception):
    """A batch does not begin where the windows end."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one batch of the stream."""

    number: int
    offsets: int
    """The number of offsets, which is at least the number of records."""
    result: PieceResult | None
    """None if the windows had it already."""
    reached: dict[int, int]
    closed: int
    """The number of spans of the narrowest width that this batch closed."""
    closed_until: datetime | None
    """The end of the last of these; earlier records count as late."""


def go_on(checkpoint: FollowCheckpoint, subject: Subject, held: Offsets) -> bool:
    """Make the checkpoint continue from `held`, where the windows end.

    Returns whether it did or had no batch. Otherwise its batches are forgotten, because a rollup
    has worked without it or the topic is another one. Raises BadCheckpoint if it has another
    subject, and OSError.
    """
    found = checkpoint.subject()
    if found is not None:
        if found.topic != subject.topic:
            raise BadCheckpoint(f"it belongs to topic {found.topic}")
        clusters = {found.cluster_id, subject.cluster_id} - {None}
        if len(clusters) > 1:
            raise BadCheckpoint(f"it belongs to another cluster, {found.cluster_id}")
        last = checkpoint.last_batch()
        is_same = (found.topic_id, found.schema) == (subject.topic_id, subject.schema)
        if last is not None and is_same:
            begin, end = checkpoint.start_of(last), checkpoint.end_of(last)
            is_open = not checkpoint.is_committed(last)
            if are_equal(held, end) or (is_open and are_equal(held, begin)):
                checkpoint.check()
                return True
        checkpoint.begin(subject, held)
        return last is None
    checkpoint.begin(subject, held)
    return True


@dataclass(slots=True)
class _Merging:
    """An hour that is being merged, unit by unit."""

    tasks: list[HourTask]
    results: list[MergeResult] = field(default_factory=list)
    """The results of the first tasks."""


class FollowedOutput:
    """The windows of a directory, and the checkpoint of the stream that is added to them."""

    def __init__(
        self,
        directory: WindowDirectory,
        checkpoint: FollowCheckpoint,
        start: Progress,
        now_ms: MonotonicMs,
        watermark: timedelta = LATE_AFTER,
    ) -> None:
        """`start` is the end of the windows. Windows that began longer than the watermark before
        the newest one are closed.
        """
        self._directory = directory
        self._checkpoint = checkpoint
        self._start = start
        self._held: Offsets = start.offsets
        self._watermark = watermark
        self._late_since_ms = now_ms
        self._late_hours: list[str] = []
        self._merging: _Merging | None = None

    def take(self, number: int, read: Callable[[], Sequence[PieceResult]]) -> Batch:
        """Add a planned batch, which `read` reads, unless the windows have it.

        Raises BatchMismatch, BadCheckpoint, UnusableDirectory, OSError.
        """
        begin, end = self._checkpoint.start_of(number), self._checkpoint.end_of(number)
        result = None
        before = self._closed_until()
        if not are_equal(self._held, end):
            if not are_equal(self._held, begin):
                raise BatchMismatch(f"batch {number} does not begin where the windows end")
            results = read()
            reached = Progress(
                self._start.topic,
                self._start.topic_id,
                end,
                cluster_id=self._start.cluster_id,
                former_topics=self._start.former_topics,
            )
            self._directory.append(results, reached)
            result = together(results)
            self._held = end
        until = self._closed_until()
        closed = 0 if before is None or until is None else (until - before) // _WIDTH
        return Batch(number, records_between(begin, end), result, end, closed, until)

    @property
    def is_merging(self) -> bool:
        """Whether an hour is merged in part."""
        return self._merging is not None

    def merge_some(self, run: RunMerges, units: int, now_ms: MonotonicMs) -> Merged | None:
        """Merge at most `most` units of a closed hour, if there is one.

        An hour with late records is merged at most every LATE_MS. Returns what became visible once
        the whole hour is done. Raises UnusableDirectory, and what `run` raises.
        """
        if self._merging is None:
            due = self._directory.merges(watermark=self._watermark, with_late=False)
            due = due or self._late(now_ms)
            if not due:
                return None
            hour = due[0].unit.hour
            self._merging = _Merging([task for task in due if task.unit.hour == hour])
        tasks, results = self._merging.tasks, self._merging.results
        results += run(tasks[len(results) :][:units])
        if len(results) < len(tasks):
            return None
        self._merging = None
        days = self._directory.day_merges(tasks, results)
        return self._directory.merged([*tasks, *days], [*results, *run(days)])

    def _late(self, now_ms: MonotonicMs) -> list[HourTask]:
        """The next hour, of those due when LATE_MS had passed, that still is."""
        if not self._late_hours and now_ms - self._late_since_ms < LATE_MS:
            return []
        due = self._directory.merges(watermark=self._watermark)
        if not self._late_hours:
            self._late_since_ms = now_ms
            self._late_hours = sorted({task.unit.hour for task in due})
        while self._late_hours:
            hour = self._late_hours.pop(0)
            if found := [task for task in due if task.unit.hour == hour]:
                return found
        return []

    def _closed_until(self) -> datetime | None:
        return closed_until(self._directory.manifest.newest_s, self._watermark)
