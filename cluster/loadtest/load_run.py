"""Runs one load test: starts its processes, and ends when every record is accounted for.

Processes are started through `spawned_process`; the caller creates and deletes the topic.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.loadtest.group_account import (
    GroupResult,
    checks_of,
    group_result,
    is_all_read,
)
from cluster.loadtest.sequence_check import (
    Place,
    Promised,
    SequenceCheck,
    Verified,
    by_partition,
    verify,
)
from cluster.loadtest.spawned_process import Worker, WorkerGroup, now_us
from cluster.loadtest.worker_orders import ConsumerOrder, ProducerOrder

Ends = Callable[[], Mapping[int, int]]
"""The current end offset of each partition."""
Lag = Callable[[], int | None]
"""The records that the group has not committed yet; None if unknown."""
Progress = Callable[[Sequence[Worker]], None]
"""Called several times a second with all workers."""

_LISTEN_S: Final = 0.2
_GROUP_PATIENCE_US: Final = 75_000_000
"""Without progress for this long the members end, and missing records count as lost. A dead member
costs a session timeout and a rebalance."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The orders of all producers and consumers."""

    topic: str
    producers: Sequence[ProducerOrder]
    consumers: Sequence[ConsumerOrder]
    kill_after_us: int | None = None
    """When to kill the first consumer, a member of a group."""
    lag: Lag | None = None
    """Set for consumers in a group."""


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
    group: GroupResult | None = None
    """Set for consumers in a group."""

    @property
    def failed(self) -> int:
        """Records that producers could not deliver."""
        return sum(worker.total.failed for worker in self.producers)

    @property
    def exit_status(self) -> int:
        """130 after Ctrl-C; 1 if a record was not acknowledged, or was lost, repeated or out of
        order.

        A repeated record is no fault of a group, which promises at-least-once.
        """
        if self.is_interrupted:
            return 130
        unacknowledged = sum(worker.total.abandoned for worker in self.producers)
        return 1 if self.failed or unacknowledged or not self.is_as_promised else 0

    @property
    def is_as_promised(self) -> bool:
        """Whether everything arrived as the consumers promise. True if that was not checked."""
        if self.verified is None:
            return True
        return self.verified.is_perfect if self.group is None else self.verified.is_at_least_once


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
            progress = _with_kill(plan, workers, start_us, progress)
            _until_done(group, [worker for worker in workers if worker.is_producer], progress)
            consumers = [worker for worker in workers if not worker.is_producer]
            if plan.lag is not None:
                _until_read(group, consumers, ends, progress)
            elif consumers:
                until = dict(ends())
                for worker in consumers:
                    worker.command("finish", until=until)
                _until_done(group, consumers, progress)
        except KeyboardInterrupt:
            is_interrupted = True
            group.stop(group.workers)
        return _result(plan, group.workers, start_us, is_interrupted=is_interrupted)


def _with_kill(
    plan: LoadPlan, workers: Sequence[Worker], start_us: int, progress: Progress
) -> Progress:
    """The progress callback, which also kills the first consumer when it is due."""
    if plan.kill_after_us is None:
        return progress
    kill_us = start_us + plan.kill_after_us
    victim = next(worker for worker in workers if not worker.is_producer)

    def with_kill(all_workers: Sequence[Worker]) -> None:
        if now_us() >= kill_us and not victim.account.is_killed:
            victim.kill()
        progress(all_workers)

    return with_kill


def _until_read(
    group: WorkerGroup, members: Sequence[Worker], ends: Ends, progress: Progress
) -> None:
    """Wait until the members have read everything or make no more progress; then they leave."""
    until = dict(ends())
    accounts = [worker.account for worker in members]
    read, progress_us = 0, now_us()
    while not is_all_read(accounts, until) and now_us() - progress_us < _GROUP_PATIENCE_US:
        group.listen(_LISTEN_S)
        progress(group.workers)
        now_read = sum(len(account.received) for account in accounts)
        if now_read > read:
            read, progress_us = now_read, now_us()
    group.stop(members)


def _until_done(group: WorkerGroup, awaited: Sequence[Worker], progress: Progress) -> None:
    while not all(worker.is_done for worker in awaited):
        group.listen(_LISTEN_S)
        progress(group.workers)


def _result(
    plan: LoadPlan, workers: Sequence[Worker], start_us: int, *, is_interrupted: bool
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
        if plan.lag is not None:
            checks = checks_of(worker.account for worker in consumers)
        outcome["verified"] = verify(promised, checks)
        outcome["verified_by_partition"] = by_partition(promised, checks)
    if plan.lag is not None:
        order = plan.consumers[0]
        accounts = {worker.name: worker.account for worker in consumers}
        outcome["group"] = group_result(
            order.group or "", order.group_protocol, accounts, plan.lag()
        )
    seconds = (max(ends_us) - start_us) / 1e6 if ends_us and start_us else 0.0
    return LoadResult(plan.topic, producers, consumers, seconds, is_interrupted, **outcome)
