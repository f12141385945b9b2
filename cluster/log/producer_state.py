"""The producer state of a partition: each producer id's epoch, last batches and open transaction
(KIP-98).

Decides whether a batch is new, a duplicate or out of order. Pure; `producer_snapshots` has the
files.
"""

from collections import deque
from struct import Struct
from typing import Final, NamedTuple

from cluster.log.transaction_index import AbortedTransaction
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE
from cluster.records.batch import (
    CONTROL_BIT,
    MAX_INT32,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from cluster.records.reader import records_of_batch

BATCHES_KEPT: Final = 5
"""As many as an idempotent client keeps in flight: the oldest it can still repeat."""
NO_TRANSACTION: Final = -1
NO_COORDINATOR_EPOCH: Final = -1
_MARKER: Final = Struct(">hi")
_MARKER_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple


class Marker(NamedTuple):
    """The content of an end-of-transaction marker."""

    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    is_abort: bool = False


class AppendedBatch(NamedTuple):
    """One batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_sequence(self) -> int:
        """Sequence number of the first record; wraps at 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) & MAX_INT32

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer id in one partition."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_offset")

    def __init__(self) -> None:
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = NO_TIMESTAMP
        self.transaction_offset = NO_TRANSACTION
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_KEPT)

    def enter_epoch(self, epoch: int) -> None:
        """Start a new epoch, which has its own sequence."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    @property
    def last_sequence(self) -> int:
        """Sequence number of the newest record of this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerState:
    """All producer ids of one partition."""

    __slots__ = ("aborted", "entries", "expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.entries: dict[int, ProducerEntry] = {}
        self.aborted: list[AbortedTransaction] = []
        """Transactions whose abort marker was replayed; for the log, which takes them away."""

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Validate a batch that a client sends with a producer id.

        Returns the earlier batch that this one duplicates, or None for a new batch. An unknown
        producer id may begin with any sequence, because its earlier batches may have been deleted.
        Raises Refused: invalid_producer_epoch, out_of_order_sequence_number, invalid_txn_state.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        base_sequence = header.base_sequence
        if header.producer_epoch != entry.epoch:
            self._check_epoch(header, entry)
        else:
            last = entry.last_sequence
            if base_sequence != (last + 1) & MAX_INT32:
                last_sequence = header.last_sequence
                for batch in entry.batches:
                    if (
                        batch.last_sequence == last_sequence
                        and batch.base_sequence == base_sequence
                    ):
                        return batch
                raise Refused(
                    ErrorCode.out_of_order_sequence_number,
                    f"producer {header.producer_id}: sequence {base_sequence} after {last}",
                )
        if entry.transaction_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            raise Refused(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} writes outside its open transaction",
            )
        return None

    def _check_epoch(self, header: BatchHeader, entry: ProducerEntry) -> None:
        if header.producer_epoch < entry.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"producer {header.producer_id}: epoch {header.producer_epoch}, "
                f"last seen {entry.epoch}",
            )
        if header.base_sequence and entry.epoch != NO_PRODUCER_EPOCH:
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id}: first sequence {header.base_sequence} of "
                f"epoch {header.producer_epoch} is not 0",
            )

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """The base sequence that `check` expects of the producer's next batch of an epoch."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.epoch != epoch:
            return 0
        return (entry.last_sequence + 1) & MAX_INT32

    def record(self, header: BatchHeader, base_offset: int, timestamp_ms: int) -> None:
        """Record a stored data batch (already checked, replicated or recovered)."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry()
        if header.producer_epoch != entry.epoch:
            entry.enter_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        kept = (header.last_sequence, base_offset + delta, delta, timestamp_ms)
        entry.batches.append(_new(AppendedBatch, kept))
        entry.last_timestamp_ms = timestamp_ms
        if header.attributes & TRANSACTIONAL_BIT and entry.transaction_offset < 0:
            entry.transaction_offset = base_offset

    def record_end_of_transaction(self, header: BatchHeader, marker: Marker) -> None:
        """Record a stored commit or abort marker."""
        entry = self.entries.setdefault(header.producer_id, ProducerEntry())
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
        first_offset, entry.transaction_offset = entry.transaction_offset, NO_TRANSACTION
        if marker.is_abort and first_offset >= 0:
            undecided = self.first_undecided_offset
            stable = header.last_offset + 1 if undecided is None else undecided
            self.aborted.append(
                AbortedTransaction(header.producer_id, first_offset, header.last_offset, stable)
            )
        entry.last_timestamp_ms = header.max_timestamp

    def replay(self, header: BatchHeader, batch: memoryview) -> None:
        """Update the state from a batch of the log, after replication or during recovery."""
        if header.producer_id < 0:
            return
        if header.attributes & CONTROL_BIT:
            self.record_end_of_transaction(header, _marker(header, batch))
        else:
            self.record(header, header.base_offset, header.max_timestamp)

    @property
    def first_undecided_offset(self) -> int | None:
        """First offset of the oldest open transaction (Kafka: `firstUnstableOffset`), or None."""
        offsets = [e.transaction_offset for e in self.entries.values() if e.transaction_offset >= 0]
        return min(offsets) if offsets else None

    def expire(self, wall_ms: WallMs) -> int:
        """Forget idle producers (`producer.id.expiration.ms`); returns their number."""
        idle = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_offset < 0
            and wall_ms - entry.last_timestamp_ms >= self.expiration_ms
        ]
        for producer_id in idle:
            del self.entries[producer_id]
        return len(idle)


def _marker(header: BatchHeader, batch: memoryview) -> Marker:
    """Decode a marker: its key is int16 version, int16 type, its value int16 version, int32
    coordinator epoch. Compaction may have emptied it."""
    for record in records_of_batch(header, batch):
        key, value = record.key or b"", record.value or b""
        return Marker(
            _MARKER.unpack_from(value)[1] if len(value) >= _MARKER.size else NO_COORDINATOR_EPOCH,
            len(key) >= _MARKER_KEY.size and _MARKER_KEY.unpack_from(key)[1] == _ABORT,
        )
    return Marker()
