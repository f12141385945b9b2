"""What one shard of the coordinator appends to its partition: a batch for all that a turn brings.

Kafka writes one batch for each request (`GroupMetadataManager.appendForGroup`), or collects them
for `group.coordinator.append.linger.ms`; here nobody waits for the others of a batch.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from cluster.brokers.replication.internal_topics import AppendOutcome, InternalTopics
from cluster.brokers.replication.partition import Partition
from cluster.coordinator.groups.effects import Append
from cluster.model.clocks import MonotonicMs
from cluster.model.error_codes import ErrorCode
from cluster.records.batch import HEADER_BYTES, Compression
from cluster.records.builder import NewRecord, build_batch
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop, Timer

_RECORD_OVERHEAD_BYTES: Final = 32
"""More than a record's lengths, timestamp and offset take."""


class AppendListener(Protocol):
    """Who is told what became of its appends."""

    def on_appended(self, append_id: int, code: ErrorCode, *, is_in_log: bool | None) -> None:
        """The outcome of an append: once for each, in their order."""
        ...

    def on_append_late(self, append_id: int) -> None:
        """The in-sync replicas have not confirmed it within the time limit."""
        ...


@dataclass(slots=True)
class _Batch:
    append_ids: list[int]
    due_ms: MonotonicMs
    outcome: AppendOutcome | None = None
    is_late: bool = False


class ShardAppends:
    """Owned by the broker's thread.

    Invariant: outcomes are told in the order of appends, although a refusal is known at once.
    """

    def __init__(
        self,
        partition: Partition,
        internal_topics: InternalTopics,
        codec: Compression,
        timeout_ms: int,
        clock: Clock,
        loop: EventLoop,
        listener: AppendListener,
    ) -> None:
        """`timeout_ms`: after how long an append that is not confirmed counts as late."""
        self._partition = partition
        self._internal_topics = internal_topics
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._loop = loop
        self._listener = listener
        self._collected: list[Append] = []
        self._in_flight: deque[_Batch] = deque()
        self._timer: Timer | None = None
        self._is_closed = False
        self._is_telling = False

    def add(self, append: Append) -> None:
        """Append it at the end of this turn, together with others."""
        if not self._collected:
            self._loop.defer(self._flush)
        self._collected.append(append)

    def close(self) -> None:
        """The shard is gone: nothing more is appended or told."""
        self._is_closed = True
        self._collected.clear()
        self._in_flight.clear()
        if self._timer is not None:
            self._timer.cancel()

    # -- writing -----------------------------------------------------------------------------------

    def _flush(self) -> None:
        collected, self._collected = self._collected, []
        limit_bytes = self._partition.log.options.max_message_bytes
        group: list[Append] = []
        size_bytes = HEADER_BYTES
        for append in collected:
            own_bytes = _size_of(append)
            if group and size_bytes + own_bytes > limit_bytes:
                self._write(group)
                group, size_bytes = [], HEADER_BYTES
            group.append(append)
            size_bytes += own_bytes
        if group:
            self._write(group)

    def _write(self, appends: list[Append]) -> None:
        if self._is_closed:
            return
        now_ms, wall_ms = self._loop.now_ms, self._clock.wall_ms()
        batch = _Batch(
            [append.append_id for append in appends], MonotonicMs(now_ms + self._timeout_ms)
        )
        self._in_flight.append(batch)
        records = [
            NewRecord(record.value, record.key, wall_ms)
            for append in appends
            for record in append.records
        ]
        if not records:
            self._on_outcome(batch, AppendOutcome(ErrorCode.none, is_appended=True))
            return
        content = build_batch(records, codec=self._codec)
        self._internal_topics.append(
            self._partition.id,
            memoryview(content),
            lambda outcome: self._on_outcome(batch, outcome),
        )
        if batch.outcome is None and self._timer is None:
            self._timer = self._loop.call_at(batch.due_ms, self._look_for_late_ones)

    # -- outcomes ----------------------------------------------------------------------------------

    def _on_outcome(self, batch: _Batch, outcome: AppendOutcome) -> None:
        batch.outcome = outcome
        if self._is_telling:  # what is told may bring the next outcome, which comes after it
            return
        self._is_telling = True
        while self._in_flight:
            oldest = self._in_flight[0]
            if oldest.outcome is None:
                break
            self._in_flight.popleft()
            self._tell(oldest, oldest.outcome)
        self._is_telling = False

    def _tell(self, batch: _Batch, outcome: AppendOutcome) -> None:
        # Which leader comes next decides whether it keeps what a lost leadership left in the log.
        is_in_log = True if outcome.code is ErrorCode.not_enough_replicas_after_append else None
        for append_id in batch.append_ids:
            if self._is_closed:
                return
            self._listener.on_appended(append_id, outcome.code, is_in_log=is_in_log)

    def _look_for_late_ones(self) -> None:
        self._timer = None
        now_ms = self._loop.now_ms
        for batch in list(self._in_flight):
            if batch.is_late or batch.outcome is not None:
                continue
            if batch.due_ms > now_ms:
                self._timer = self._loop.call_at(batch.due_ms, self._look_for_late_ones)
                return
            batch.is_late = True
            for append_id in batch.append_ids:
                if self._is_closed:
                    return
                self._listener.on_append_late(append_id)


def _size_of(append: Append) -> int:
    """At least as many bytes as its records take in a batch."""
    return sum(
        len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        for record in append.records
    )
