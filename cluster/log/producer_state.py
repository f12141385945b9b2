"""The producer state of a partition: each producer id's epoch, last batches and open transaction
(KIP-98).

Decides whether a batch is new, a duplicate or out of order. Pure; `producer_snapshots` has the
files.
"""

from collections import deque
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE
from cluster.records.batch import (
    CONTROL_BIT,
    MAX_INT32,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
)
from cluster.records.markers import NO_COORDINATOR_EPOCH, EndMarker, marker_at, read_marker
from cluster.records.producer_walk import BatchKind, ProducerBatch

BATCHES_KEPT: Final = 5
"""As many as an idempotent client keeps in flight: the oldest it can still repeat."""
NO_TRANSACTION: Final = -1
_IDS_PER_STEP: Final = 500
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple


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


class EndedTransaction(NamedTuple):
    """A transaction that has ended in the partition; both offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    """That of its marker."""
    last_stable_offset: int
    """Below it, no transaction was open when this one ended."""
    is_abort: bool


class Verification:
    """The time between the question whether a partition belongs to a producer's transaction, which
    the transaction coordinator answers, and the append of the producer's first batch (KIP-890).

    Requests of one epoch of the producer that come in this time share it. A marker of the producer
    ends it: an append afterwards would begin a transaction that nobody ends.
    """

    __slots__ = ("began_ms", "is_added", "is_valid", "lowest_sequence")

    def __init__(self, sequence: int, began_ms: int, *, is_added: bool) -> None:
        self.lowest_sequence = sequence
        """The transaction begins with the batch of this base sequence."""
        self.began_ms = began_ms
        """Milliseconds since the Unix epoch."""
        self.is_added = is_added
        """Whether the question also adds the partition: the producer has transaction version 2, so
        it has another epoch in each transaction, and its sequence begins with 0 there."""
        self.is_valid = True


class ProducerState:
    """All producer ids of one partition."""

    __slots__ = (
        "_open",
        "_verifications",
        "ended",
        "entries",
        "expiration_ms",
        "snapshot_offset",
    )

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.entries: dict[int, ProducerEntry] = {}
        """Changed by the methods only."""
        self.snapshot_offset = -1
        """Of the batches before this offset only the last of each producer is known; -1 if the
        state was not loaded from a snapshot, or earlier ones were looked for."""
        self.ended: deque[EndedTransaction] = deque()
        """Transactions whose marker was recorded; for the log, which takes them away."""
        self._open: dict[int, int] = {}
        """The first offset of each open transaction by its producer, in the order of offsets."""
        self._verifications: dict[int, dict[int, Verification]] = {}
        """By producer id and epoch: a request with a wrong epoch must not disturb the others."""

    def restore(self, entries: Mapping[int, ProducerEntry], offset: int) -> None:
        """Begin with the entries of the snapshot at an offset."""
        self.entries = dict(entries)
        self.snapshot_offset = offset
        opened = [(e.transaction_offset, producer_id) for producer_id, e in entries.items()]
        self._open = {producer_id: offset for offset, producer_id in sorted(opened) if offset >= 0}

    def clear(self) -> None:
        """Forget everything, and end all verifications: the log is emptied or cut."""
        self.entries.clear()
        self.snapshot_offset = -1
        self.ended.clear()
        self._open.clear()
        for verifications in self._verifications.values():
            for verification in verifications.values():
                verification.is_valid = False
        self._verifications.clear()

    def check(
        self, header: BatchHeader, verification: Verification | None = None
    ) -> AppendedBatch | None:
        """Validate a batch that a client sends with a producer id.

        Returns the earlier batch that this one duplicates, or None for a new batch. An unknown
        producer id may begin with any sequence, because its earlier batches may have been deleted.
        `verification` is that of a batch whose transaction had to be verified first. Raises
        Refused: invalid_producer_epoch, out_of_order_sequence_number, invalid_txn_state.
        """
        if verification is not None:
            self._check_verified(header, verification)
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

    def _check_verified(self, header: BatchHeader, verification: Verification) -> None:
        if self.has_open_transaction(header.producer_id, header.producer_epoch):
            return  # an earlier batch was appended meanwhile
        if not verification.is_valid:
            raise Refused(
                ErrorCode.invalid_txn_state,
                f"the transaction of producer {header.producer_id} has ended meanwhile",
            )
        if header.base_sequence > verification.lowest_sequence:
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id}: sequence {header.base_sequence} before"
                f" {verification.lowest_sequence}, with which its transaction begins",
            )
        if verification.is_added and header.base_sequence and self._is_new(header.producer_id):
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id}: first sequence {header.base_sequence} is not 0",
            )

    def _is_new(self, producer_id: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is None or not entry.batches

    def may_have_forgotten(self, header: BatchHeader) -> bool:
        """Whether a batch that `check` refuses may repeat one that the snapshot does not have."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch or not entry.batches:
            return False
        oldest = entry.batches[0]
        before = (oldest.base_sequence - 1 - header.last_sequence) & MAX_INT32
        return (
            oldest.last_offset < self.snapshot_offset
            and len(entry.batches) < BATCHES_KEPT
            and before <= MAX_INT32 // 2
        )

    def take_earlier(self, earlier: "ProducerState") -> None:
        """Add batches from before the snapshot; `earlier` is the state in front of its offset."""
        for producer_id, found in earlier.entries.items():
            entry = self.entries.get(producer_id)
            if entry is None or entry.epoch != found.epoch or not entry.batches:
                continue
            known_from = entry.batches[0].last_offset
            if any(batch.last_offset == known_from for batch in found.batches):
                added = [batch for batch in found.batches if batch.last_offset < known_from]
                entry.batches = deque([*added, *entry.batches], maxlen=BATCHES_KEPT)

    def check_marker(self, marker: EndMarker) -> None:
        """Validate a marker that a transaction coordinator sends.

        Raises Refused: invalid_producer_epoch, and transaction_coordinator_fenced if a later leader
        of the coordinator's partition has written a marker.
        """
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return
        if marker.producer_epoch < entry.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"producer {marker.producer_id}: marker of epoch {marker.producer_epoch}, "
                f"last seen {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise Refused(
                ErrorCode.transaction_coordinator_fenced,
                f"producer {marker.producer_id}: marker of coordinator epoch"
                f" {marker.coordinator_epoch}, last seen {entry.coordinator_epoch}",
            )

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction of this epoch here that has not ended."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_offset >= 0 and entry.epoch == epoch

    def begin_verification(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        wall_ms: WallMs,
        *,
        is_added: bool,
    ) -> Verification:
        """Begin to verify the transaction of a batch, or join the verification that has begun.

        Raises Refused(invalid_producer_epoch) if a later epoch of the producer has written here.
        """
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id}: epoch {epoch}, last seen {entry.epoch}",
            )
        of_producer = self._verifications.setdefault(producer_id, {})
        found = of_producer.get(epoch)
        if found is None:
            found = of_producer[epoch] = Verification(base_sequence, wall_ms, is_added=is_added)
        else:
            found.lowest_sequence = min(found.lowest_sequence, base_sequence)
            found.is_added = found.is_added and is_added
        return found

    def _end_verifications(self, producer_id: int, epoch: int, *, is_marker: bool) -> None:
        """The producer has written in an epoch: end the verifications of it and of earlier ones.

        Batches that still wait need them only if that transaction is not open any more. The marker
        of a producer of transaction version 2 has the epoch of its next transaction, whose
        verification may have begun.
        """
        of_producer = self._verifications.get(producer_id, {})
        for verified_epoch, verification in list(of_producer.items()):
            if verified_epoch > epoch:
                continue
            if is_marker and verified_epoch == epoch and verification.is_added:
                continue
            verification.is_valid = False
            del of_producer[verified_epoch]
        if not of_producer:
            self._verifications.pop(producer_id, None)

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
        if (
            header.attributes & TRANSACTIONAL_BIT
            and entry.transaction_offset < 0
            and header.record_count  # what compaction has emptied belongs to an ended transaction
        ):
            entry.transaction_offset = base_offset
            self._open[header.producer_id] = base_offset
            if self._verifications:
                self._end_verifications(header.producer_id, header.producer_epoch, is_marker=False)

    def record_marker(
        self,
        producer_id: int,
        epoch: int,
        last_offset: int,
        timestamp_ms: int,
        marker: EndMarker | None,
    ) -> None:
        """Record a stored commit or abort marker; None is one that compaction has emptied."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry()
        if epoch != entry.epoch:
            entry.enter_epoch(epoch)
        first_offset, entry.transaction_offset = entry.transaction_offset, NO_TRANSACTION
        self._open.pop(producer_id, None)
        if self._verifications:
            self._end_verifications(producer_id, epoch, is_marker=True)
        if marker is not None:
            entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
            if first_offset >= 0:
                undecided = self.first_undecided_offset
                stable = last_offset + 1 if undecided is None else undecided
                self.ended.append(
                    EndedTransaction(
                        producer_id, first_offset, last_offset, stable, not marker.is_commit
                    )
                )
        entry.last_timestamp_ms = timestamp_ms

    def replay(self, header: BatchHeader, batch: memoryview) -> None:
        """Update the state from a batch of the log, after replication or during recovery."""
        if header.producer_id < 0:
            return
        if header.attributes & CONTROL_BIT:
            self.record_marker(
                header.producer_id,
                header.producer_epoch,
                header.last_offset,
                header.max_timestamp,
                read_marker(header, batch),
            )
        else:
            self.record(header, header.base_offset, header.max_timestamp)

    def replay_walked(self, batches: Sequence[ProducerBatch], data: Buffer) -> None:
        """Do what `replay` does for batches that `producer_batches` has found in `data`.

        Raises Refused for a control batch that cannot be decoded.
        """
        entries, opened = self.entries, self._open
        opening, control = int(BatchKind.OPENING), int(BatchKind.CONTROL)
        for producer_id, epoch, sequence, last_offset, delta, timestamp_ms, kind, at in batches:
            if kind == control:
                marker = marker_at(data, at)
                self.record_marker(producer_id, epoch, last_offset, timestamp_ms, marker)
                continue
            entry = entries.get(producer_id)
            if entry is None:
                entry = entries[producer_id] = ProducerEntry()
            if epoch != entry.epoch:
                entry.enter_epoch(epoch)
            kept = (sequence, last_offset, delta, timestamp_ms)
            entry.batches.append(_new(AppendedBatch, kept))
            entry.last_timestamp_ms = timestamp_ms
            if kind == opening and entry.transaction_offset < 0:
                opened[producer_id] = entry.transaction_offset = last_offset - delta

    @property
    def first_undecided_offset(self) -> int | None:
        """First offset of the oldest open transaction (Kafka: `firstUnstableOffset`), or None."""
        for offset in self._open.values():
            return offset
        return None

    def open_transactions(self) -> ItemsView[int, int]:
        """Producer id and first offset of each open transaction, the oldest first."""
        return self._open.items()

    def expire(self, wall_ms: WallMs) -> int:
        """Forget idle producers (`producer.id.expiration.ms`); returns their number."""
        before = len(self.entries)
        for _ in self.expiring_steps(wall_ms):
            pass
        return before - len(self.entries)

    def expiring_steps(self, wall_ms: WallMs) -> Iterator[None]:
        """`expire` in short steps; anything may happen to the log between them."""
        ids = list(self.entries)
        for begin in range(0, len(ids), _IDS_PER_STEP):
            if begin:
                yield
            for producer_id in ids[begin : begin + _IDS_PER_STEP]:
                entry = self.entries.get(producer_id)
                if (
                    entry is not None
                    and entry.transaction_offset < 0
                    and wall_ms - entry.last_timestamp_ms >= self.expiration_ms
                ):
                    del self.entries[producer_id]
        ids = list(self._verifications)
        for begin in range(0, len(ids), _IDS_PER_STEP):
            yield
            for producer_id in ids[begin : begin + _IDS_PER_STEP]:
                self._expire_verifications(producer_id, wall_ms)

    def _expire_verifications(self, producer_id: int, wall_ms: WallMs) -> None:
        of_producer = self._verifications.get(producer_id, {})
        for epoch, verification in list(of_producer.items()):
            if wall_ms - verification.began_ms >= self.expiration_ms:
                verification.is_valid = False
                del of_producer[epoch]
        if not of_producer:
            self._verifications.pop(producer_id, None)
