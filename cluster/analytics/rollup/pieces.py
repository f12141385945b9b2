"""Reads pieces of the topic and writes their sums as deltas: in an executor, or in this process.

The functions take and return plain values, so that any process of any machine may run them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final, NamedTuple

import pyarrow as pa
from confluent_kafka import KafkaException

from cluster.analytics.rollup.kafka_records import Block, ReadFailed, read_range
from cluster.analytics.rollup.offset_ranges import OffsetRange
from cluster.analytics.windows.deltas import PieceResult, write_delta
from cluster.analytics.windows.kinds import KIND_OF
from cluster.analytics.windows.layout import delta_path
from cluster.analytics.windows.manifest import DeltaFile
from cluster.analytics.windows.record_schema import Values, checked, reasons
from cluster.analytics.windows.store import Store, open_store
from cluster.analytics.windows.window_sums import Sums, added_up, first_sums, joined
from cluster.runtime.clock import SystemClock

OTHER: Final = "other"
"""The name under which metric records of kinds without windows are counted."""
DELTA_ROWS: Final = 100_000
"""Sums are written once there are this many rows: this bounds the memory of a task."""
DELTA_BYTES: Final = 128 << 20
"""The same for their bytes, since names may be long."""
QUARANTINED_MOST: Final = 1_000
"""The most rejected values, and the most late ones, that one task quarantines."""
_SHOWN_BYTES: Final = 1024
"""The bytes that are kept of a quarantined value."""


class ReadJob(NamedTuple):
    """What all pieces have in common."""

    connection: Mapping[str, str]
    """Settings of the Kafka client. They may contain a password."""
    topic: str
    output: str
    """The place of the windows (`store.open_store`)."""
    change: int
    """The change of the directory that the deltas belong to."""
    late_before_s: int | None
    """Records whose interval began earlier are late; None if none are."""


def read_pieces(job: ReadJob, pieces: Iterable[OffsetRange]) -> PieceResult:
    """Read ranges of offsets and write deltas of them.

    Raises ReadFailed, UnusableDirectory.
    """
    sums = PieceSums(job, open_store(job.output))
    try:
        for piece in pieces:
            for block in read_range(job.connection, job.topic, piece, fail_on_data_loss=False):
                if isinstance(block, int):
                    sums.lose(block)
                else:
                    sums.add(piece.partition, block)
    except KafkaException as problem:
        raise ReadFailed(problem.args[0].str()) from None
    return sums.done()


class PieceSums:
    """The sums of blocks, of which deltas are written."""

    def __init__(self, job: ReadJob, store: Store) -> None:
        self._job = job
        self._store = store
        # Other pieces of the change, and other attempts of this one, use other names.
        self._name = token_hex(8)
        self._deltas: list[DeltaFile] = []
        self._counts: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._late = 0
        self._lost = 0
        self._quarantined: list[str] = []
        self._rejected_left = QUARANTINED_MOST
        self._late_left = QUARANTINED_MOST
        self._waiting: list[Sums] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._clock = SystemClock()

    def lose(self, count: int) -> None:
        """Count records that retention removed before they were read."""
        self._lost += count

    def add(self, partition: int, block: Block) -> None:
        """Add a block's records.

        Records that cannot be added are rejected; the rest of the block is added. Raises
        UnusableDirectory.
        """
        try:
            found = checked(
                Values(block.values, block.keys, block.timestamps_ms), self._clock.wall_ms()
            )
            sums = {
                kind: added_up(first_sums(table, KIND_OF[kind]), KIND_OF[kind])
                for kind, table in found.tables.items()
            }
        except (pa.ArrowException, ArithmeticError) as problem:
            self._add_in_halves(partition, block, problem)
            return
        for kind, table in found.tables.items():
            self._counts[kind] += table.num_rows
        self._counts[OTHER] += found.others
        self._reject(partition, block, found.rejected)
        if self._job.late_before_s is not None:
            self._note_late(partition, block, found.late(self._job.late_before_s * 1_000_000))
        self._waiting.append(sums)
        self._waiting_rows += _rows(sums)
        self._waiting_bytes += _bytes(sums)
        if self._waiting_rows > DELTA_ROWS or self._waiting_bytes > DELTA_BYTES:
            self._gather()

    def _add_in_halves(self, partition: int, block: Block, problem: Exception) -> None:
        """Find the records because of which a block cannot be added, and reject them."""
        count = len(block.values)
        if count == 1:
            why = str(problem).partition("\n")[0]
            self._reject(partition, block, [(0, f"cannot be added: {why}")])
            return
        for half in (slice(0, count // 2), slice(count // 2, count)):
            part = Block(
                block.values[half], block.keys[half], block.timestamps_ms[half], block.offsets[half]
            )
            self.add(partition, part)

    def _reject(self, partition: int, block: Block, rejected: Sequence[tuple[int, str]]) -> None:
        self._rejected.update(reasons(rejected))
        for at, reason in rejected[: self._rejected_left]:
            self._quarantine(partition, block, at, reason)
        self._rejected_left -= min(self._rejected_left, len(rejected))

    def done(self) -> PieceResult:
        """The result, once all blocks are added. Raises UnusableDirectory."""
        self._write(joined(self._waiting))
        return PieceResult(
            deltas=self._deltas,
            counts=dict(+self._counts),
            rejected=dict(self._rejected),
            late=self._late,
            lost=self._lost,
            quarantined=self._quarantined,
        )

    def _gather(self) -> None:
        """Add up what waits, and write it if that has not made it much smaller."""
        sums = joined(self._waiting)
        self._waiting = [sums]
        self._waiting_rows, self._waiting_bytes = _rows(sums), _bytes(sums)
        if self._waiting_rows > DELTA_ROWS // 2 or self._waiting_bytes > DELTA_BYTES // 2:
            self._write(sums)
            self._waiting = []
            self._waiting_rows = self._waiting_bytes = 0

    def _write(self, sums: Sums) -> None:
        path = delta_path(self._job.change, f"{self._name}-{len(self._deltas)}")
        delta = write_delta(self._store, path, sums)
        if delta is not None:
            self._deltas.append(delta)

    def _note_late(self, partition: int, block: Block, places: list[int]) -> None:
        assert self._job.late_before_s is not None
        self._late += len(places)
        until = datetime.fromtimestamp(self._job.late_before_s, UTC)
        reason = f"late: windows before {until:%Y-%m-%dT%H:%M:%SZ} were closed"
        for at in places[: self._late_left]:
            self._quarantine(partition, block, at, reason)
        self._late_left -= min(self._late_left, len(places))

    def _quarantine(self, partition: int, block: Block, at: int, reason: str) -> None:
        """A line of JSON about a value: its place, the reason, and its beginning."""
        value = (block.values[at] or b"")[:_SHOWN_BYTES]
        line = {
            "partition": partition,
            "offset": block.offsets[at],
            "reason": reason,
            "value": value.decode("utf-8", "backslashreplace"),
        }
        self._quarantined.append(json.dumps(line))


def _rows(sums: Sums) -> int:
    return sum(table.num_rows for table in sums.values())


def _bytes(sums: Sums) -> int:
    return sum(table.nbytes for table in sums.values())


def together(results: Iterable[PieceResult]) -> PieceResult:
    """The combined result of several pieces."""
    deltas: list[DeltaFile] = []
    quarantined: list[str] = []
    counts: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    late = lost = 0
    for each in results:
        deltas += each.deltas
        quarantined += each.quarantined
        counts.update(each.counts)
        rejected.update(each.rejected)
        late += each.late
        lost += each.lost
    return PieceResult(deltas, dict(counts), dict(rejected), late, lost, quarantined)
