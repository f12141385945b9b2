"""Appends the records of one shard to its partition: one batch for everything that a turn brings.

Kafka writes one batch for each request (`GroupMetadataManager.appendForGroup`), or collects them
for `group.coordinator.append.linger.ms`. Here a batch ends with the turn, so no request waits for
others to join its batch.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from cluster.brokers.coordinators.options import CoordinatorOptions, CoordinatorPorts
from cluster.brokers.replication.own_appends import AppendOutcome
from cluster.brokers.replication.partition import Partition
from cluster.coordinator.shards.effects import Append
from cluster.model.clocks import MonotonicMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID
from cluster.records.batch import HEADER_BYTES
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.markers import EndMarker
from cluster.runtime.loop import Timer

_RECORD_OVERHEAD_BYTES: Final = 32
"""An upper bound of what a record's lengths, timestamp and offset take."""
_NO_PRODUCER: Final = ProducerIdentity()


class AppendListener(Protocol):
    """Receives the outcomes of appends."""

    def on_appended(self, append_id: int, code: ErrorCode, *, is_in_log: bool | None) -> None:
        """The outcome of an append; called once for each, in their order."""
        ...

    def on_append_late(self, append_id: int) -> None:
        """The in-sync replicas have not confirmed the append within the time limit."""
        ...

    def on_marker(self, marker: EndMarker) -> None:
        """The end of a transaction is in the log and will stay there."""
        ...


OnMarked = Callable[[ErrorCode], None]


class _AppendedMarker(NamedTuple):
    marker: EndMarker
    on_marked: OnMarked


class _Batch:
    __slots__ = ("append_ids", "due_ms", "is_late", "marker", "outcome")

    def __init__(
        self, append_ids: list[int], due_ms: MonotonicMs, marker: _AppendedMarker | None = None
    ) -> None:
        self.append_ids = append_ids
        self.due_ms = due_ms
        self.outcome: AppendOutcome | None = None
        self.is_late = False
        self.marker = marker


class ShardAppends:
    """Owned by the broker's thread.

    Invariant: outcomes are reported in the order of appends, although a refusal is known at once.
    """

    def __init__(
        self,
        partition: Partition,
        options: CoordinatorOptions,
        ports: CoordinatorPorts,
        listener: AppendListener,
    ) -> None:
        self._partition = partition
        self._own_appends = ports.internal_topics.appends
        self._codec = options.codec
        self._timeout_ms = options.append_timeout_ms
        self._clock = ports.clock
        self._loop = ports.loop
        self._listener = listener
        self._collected: list[Append] = []
        self._in_flight: deque[_Batch] = deque()
        self._timer: Timer | None = None
        self._is_closed = False
        self._is_reporting = False

    def add(self, append: Append) -> None:
        """Append the records at the end of this turn, in a batch with others unless they belong to
        a transaction."""
        if not self._collected:
            self._loop.defer(self._flush)
        self._collected.append(append)

    def add_marker(self, marker: EndMarker, on_marked: OnMarked) -> None:
        """Append the end of a transaction now, after all that was added before.

        At the end of the turn would be too late: until the log has the marker, a transactional
        append that comes after it would be taken for a part of the transaction, and would begin
        another one that nobody ends.

        `on_marked` is called once: when it is committed, and the listener knows it, or on error.
        """
        self._flush()
        self._write_marker(marker, on_marked)

    def close(self) -> None:
        """The shard is unloaded: nothing more is appended, or reported but to those who wait for a
        marker."""
        self._is_closed = True
        self._collected.clear()
        markers = [batch.marker for batch in self._in_flight if batch.marker is not None]
        self._in_flight.clear()
        for each in markers:
            each.on_marked(ErrorCode.not_leader_or_follower)
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
            is_apart = append.producer_id != NO_PRODUCER_ID
            if group and (is_apart or size_bytes + own_bytes > limit_bytes):
                self._write(group)
                group, size_bytes = [], HEADER_BYTES
            if is_apart:
                self._write([append], self._next_of_producer(append))
                continue
            group.append(append)
            size_bytes += own_bytes
        if group:
            self._write(group)

    def _next_of_producer(self, append: Append) -> ProducerIdentity:
        """The producer of a transactional append. The log checks and remembers sequence numbers, so
        they continue those of its earlier batches here; Kafka's coordinators write 0 each time and
        are exempt from the check."""
        sequence = self._partition.log.producers.next_sequence(
            append.producer_id, append.producer_epoch
        )
        return ProducerIdentity(append.producer_id, append.producer_epoch, sequence)

    def _write(self, appends: list[Append], producer: ProducerIdentity = _NO_PRODUCER) -> None:
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
        content = build_batch(
            records,
            codec=self._codec,
            producer=producer,
            is_transactional=producer is not _NO_PRODUCER,
        )
        self._own_appends.append(
            self._partition.id,
            memoryview(content),
            lambda outcome: self._on_outcome(batch, outcome),
        )
        if batch.outcome is None and self._timer is None:
            self._timer = self._loop.call_at(batch.due_ms, self._look_for_late_ones)

    def _write_marker(self, marker: EndMarker, on_marked: OnMarked) -> None:
        if self._is_closed:
            on_marked(ErrorCode.not_leader_or_follower)
            return
        due_ms = MonotonicMs(self._loop.now_ms + self._timeout_ms)
        batch = _Batch([], due_ms, _AppendedMarker(marker, on_marked))
        self._in_flight.append(batch)
        self._own_appends.append_marker(
            self._partition.id, marker, lambda outcome: self._on_outcome(batch, outcome)
        )

    # -- outcomes ----------------------------------------------------------------------------------

    def _on_outcome(self, batch: _Batch, outcome: AppendOutcome) -> None:
        batch.outcome = outcome
        if self._is_reporting:  # a listener caused this outcome, which is reported after its own
            return
        self._is_reporting = True
        while self._in_flight:
            oldest = self._in_flight[0]
            if oldest.outcome is None:
                break
            self._in_flight.popleft()
            self._report(oldest, oldest.outcome)
        self._is_reporting = False

    def _report(self, batch: _Batch, outcome: AppendOutcome) -> None:
        # After a lost leadership, the next leader decides whether these records stay in the log.
        is_in_log = True if outcome.code is ErrorCode.not_enough_replicas_after_append else None
        if batch.marker is not None:
            if outcome.code is ErrorCode.none or is_in_log:
                self._listener.on_marker(batch.marker.marker)
            batch.marker.on_marked(outcome.code)
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
    """An upper bound of the bytes that the records take in a batch."""
    return sum(
        len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        for record in append.records
    )
