"""Markers that cannot be written now: their partitions have no leader, or it refuses them. Pure.

A partition without enough in-sync replicas may hold back the markers of thousands of transactions.
One of them is tried from time to time, and the rest follow as soon as that succeeds.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from cluster.brokers.transactions.marker_job import MarkerJob
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import TopicPartition

FIRST_DELAY_MS: Final = 50
LAST_DELAY_MS: Final = 1_000
"""The delay between two tries is doubled up to this one."""


class _Held:
    __slots__ = ("delay_ms", "due_ms", "jobs", "tried")

    def __init__(self) -> None:
        self.jobs: dict[MarkerJob, None] = {}
        """The markers that wait, in the order in which they are tried."""
        self.tried: MarkerJob | None = None
        """The one whose marker is on its way."""
        self.delay_ms = FIRST_DELAY_MS
        self.due_ms = MonotonicMs(0)


class HeldMarkers:
    """Those of every partition. False if there are none."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, _Held] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def counts(self) -> Iterable[tuple[TopicPartition, int]]:
        """The number of markers of each partition."""
        return ((partition, len(held.jobs)) for partition, held in self._held.items())

    def may_send(self, job: MarkerJob, partition: TopicPartition) -> bool:
        """Whether nothing is held for the partition but this one, which is tried."""
        held = self._held.get(partition)
        return held is None or held.tried is job

    def add(self, job: MarkerJob, partition: TopicPartition) -> None:
        """Hold a marker that was not sent."""
        held = self._held.get(partition)
        if held is None:
            held = self._held[partition] = _Held()
        if held.tried is job:
            held.tried = None
        held.jobs[job] = None

    def on_failed(self, job: MarkerJob, partition: TopicPartition, now_ms: MonotonicMs) -> None:
        """Hold a marker that was not written; the next try is after a delay, with another one."""
        held = self._held.get(partition)
        if held is None:
            held = self._held[partition] = _Held()
            held.due_ms = MonotonicMs(now_ms + held.delay_ms)
        elif held.tried is job:
            held.tried = None
            held.delay_ms = min(2 * held.delay_ms, LAST_DELAY_MS)
            held.due_ms = MonotonicMs(now_ms + held.delay_ms)
            del held.jobs[job]
        held.jobs[job] = None

    def partitions(self) -> Collection[TopicPartition]:
        """The partitions with markers that wait."""
        return self._held.keys()

    def is_due(self, partition: TopicPartition, now_ms: MonotonicMs) -> bool:
        """Whether a marker of the partition may be tried."""
        held = self._held.get(partition)
        return held is not None and held.tried is None and held.due_ms <= now_ms

    def probe(self, partition: TopicPartition) -> MarkerJob | None:
        """The marker to try; it stays here until `release` or `on_failed`. None: all jobs of the
        partition have ended, and are to be dropped."""
        held = self._held[partition]
        for job in held.jobs:
            if not job.is_ended:
                held.tried = job
                return job
        return None

    def release(self, partition: TopicPartition) -> Iterator[MarkerJob]:
        """Take the other ones of a partition, to whose leader a marker was written."""
        held = self._held.pop(partition, None)
        if held is None:
            return iter(())
        return (job for job in held.jobs if job is not held.tried)

    def take_older(
        self, partition: TopicPartition, before_ms: int, at_most: int
    ) -> list[MarkerJob]:
        """Take some of the partition's jobs that began by then."""
        held = self._held.get(partition)
        jobs = held.jobs if held is not None else ()
        older = (job for job in jobs if job.began_ms <= before_ms and not job.is_ended)
        taken = list(islice(older, at_most))
        for job in taken:
            self._remove(job, partition)
        return taken

    def drop(self, job: MarkerJob) -> None:
        """The job has ended."""
        if self._held:
            for partition in job.left:
                self._remove(job, partition)

    def _remove(self, job: MarkerJob, partition: TopicPartition) -> None:
        held = self._held.get(partition)
        if held is None:
            return
        held.jobs.pop(job, None)
        if held.tried is job:
            held.tried = None
        if not held.jobs:
            del self._held[partition]
