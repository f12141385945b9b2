"""Runs one load test: starts consumers and producers, and ends when every record is accounted for.

Processes are started through `spawned_process`; the caller creates and deletes the topic.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.loadtest.sequence_check import (
    Place,
    Promised,
    SequenceCheck,
    Verified,
    by_partition,
    verify,
)
from cluster.loadtest.spawned_process import Worker, WorkerGroup
from cluster.loadtest.worker_orders import ConsumerOrder, ProducerOrder

Ends = Callable[[], Mapping[int, int]]
"""The end offset of each partition now."""
Progress = Callable[[Sequence[Worker]], None]
"""Called several times a second with all workers."""

_LISTEN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Who produces and consumes what."""

    topic: str
    producers: Sequence[ProducerOrder]
    consumers: Sequence[ConsumerOrder]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result. `verified` is None without consumers, or if they did not read to the end."""

    topic: str
    producers: Sequence[Worker]
    consumers: Sequence[Worker]
    seconds: float
    is_interrupted: bool
    verified: Verified | None = None
    verified_by_partition: Mapping[int, Verified] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Records that producers could not deliver."""
        return sum(worker.total.failed for worker in self.producers)

    @property
    def exit_status(self) -> int:
        """130 after Ctrl-C; 1 if any record failed, or was lost, doubled or out of order."""
        if self.is_interrupted:
            return 130
        is_wrong = self.verified is not None and not self.verified.is_perfect
        return 1 if self.failed or is_wrong else 0


def run_load(plan: LoadPlan, ends: Ends, progress: Progress) -> LoadResult:
    """Run the load test to its end; Ctrl-C ends it early with a partial result.

    Raises WorkerFailed and UserError.
    """
    with WorkerGroup() as group:
        start_us = 0
        is_interrupted = False
        try:
            workers = group.start([*plan.consumers, *plan.producers])
            start_us = group.go(workers)
            _until_done(group, [worker for worker in workers if worker.is_producer], progress)
            consumers = [worker for worker in workers if not worker.is_producer]
            if consumers:
                until = dict(ends())
                for worker in consumers:
                    worker.command("finish", until=until)
                _until_done(group, consumers, progress)
        except KeyboardInterrupt:
            is_interrupted = True
            group.stop(group.workers)
        return _result(plan.topic, group.workers, start_us, is_interrupted=is_interrupted)


def _until_done(group: WorkerGroup, awaited: Sequence[Worker], progress: Progress) -> None:
    while not all(worker.is_done for worker in awaited):
        group.listen(_LISTEN_S)
        progress(group.workers)


def _result(
    topic: str, workers: Sequence[Worker], start_us: int, *, is_interrupted: bool
) -> LoadResult:
    producers = [worker for worker in workers if worker.is_producer]
    consumers = [worker for worker in workers if not worker.is_producer]
    ends_us = [part.until_us for worker in workers for part in worker.intervals]
    outcome: dict[str, Any] = {}
    if consumers and not is_interrupted:
        promised: dict[Place, Promised] = {}
        checks: dict[Place, SequenceCheck] = {}
        for worker in workers:  # each (producer, partition) has one producer and one consumer
            promised.update(worker.promised)
            checks.update(worker.checks)
        outcome["verified"] = verify(promised, checks)
        outcome["verified_by_partition"] = by_partition(promised, checks)
    seconds = (max(ends_us) - start_us) / 1e6 if ends_us and start_us else 0.0
    return LoadResult(topic, producers, consumers, seconds, is_interrupted, **outcome)
