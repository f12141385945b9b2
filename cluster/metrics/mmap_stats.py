"""Writes one process's stats file: shared memory that other processes read without a request.

Only one thread writes. Updating a metric is a store into mapped memory, without a system call; the
kernel writes the file, so it survives the process. See `stats_layout`.
"""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster.metrics.stats_layout import (
    API_NAME_BYTES,
    COUNTER_64,
    DEFAULT_GROUPS_BYTES,
    DEFAULT_REQUESTS,
    DEFAULT_ROWS,
    DEFAULT_SLOTS,
    DEFAULT_TOPICS,
    GROUPS_LENGTH_AT,
    GROUPS_TEXT_AT,
    HEADER_BYTES,
    MAGIC,
    NAME_BYTES,
    NAME_MAX,
    PROCESS_MAX_BYTES,
    REQUEST_BYTES,
    ROW_AT,
    ROW_BYTES,
    SEQUENCE_AT,
    SLOT_COUNT_AT,
    TOPIC,
    TOPIC_BYTES,
    TWO_TIMES,
    WRITTEN_AT,
    Header,
    MetricKind,
    QuotaRow,
)
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import StorageFailed, ensure

_ZEROS: Final = bytes(1 << 16)
_ROOM_FOR_TWO: Final = 10
"""If the disk has less room than this, the old file is removed before the new one is written."""
_FREE: Final = bytes(ROW_BYTES - ROW_AT)
_FREE_TOPIC: Final = bytes(TOPIC.size)


class MmapStats:
    """One file and its mapping; lives as long as the process.

    Invariant: a name keeps the slot that it was given. Invariant: every row's sequence is even
    unless a call of this object is in progress.
    """

    def __init__(self, memory: "mmap.mmap | bytearray", header: Header) -> None:
        """`memory` is zeroed and has `header.size_bytes` bytes. Only for `create` and tests."""
        self._memory = memory
        self._header = header
        memory[:HEADER_BYTES] = header.pack()
        whole = memoryview(memory)
        values = whole[header.values_at : header.rows_at]
        self._request_numbers = whole[header.requests_at : header.topics_at].cast("q")
        self._request_names: list[str] = []
        self.counts = values.cast("q")
        """Counters and gauges by slot: `counts[slot] += n` is the whole cost of counting."""
        self.reals = values.cast("d")
        """Gauges of kind REAL by slot."""
        self._slots: dict[str, int] = {}

    @classmethod
    def create(
        cls,
        path: Path,
        process: str,
        started_wall_ms: int,
        *,
        slots: int = DEFAULT_SLOTS,
        rows: int = DEFAULT_ROWS,
        groups_bytes: int = DEFAULT_GROUPS_BYTES,
        requests: int = DEFAULT_REQUESTS,
        topics: int = DEFAULT_TOPICS,
    ) -> "MmapStats":
        """Create a file that replaces an old one, which readers may still have open.

        All blocks are allocated here: storing into a sparse file on a full disk would kill the
        process (SIGBUS). Raises StorageFailed.
        """
        header = Header(
            MAGIC,
            os.getpid(),
            0,
            started_wall_ms,
            0,
            0,
            slots,
            rows,
            0,
            process.encode()[:PROCESS_MAX_BYTES],
            groups_bytes,
            requests,
            topics,
        )
        draft = path.with_name(path.name + ".new")
        try:
            disk = os.statvfs(path.parent)
            if disk.f_bavail * disk.f_frsize < _ROOM_FOR_TWO * header.size_bytes:
                path.unlink(
                    missing_ok=True
                )  # other processes may need the space that both files would take for a moment
            with draft.open("w+b") as file:
                for start in range(0, header.size_bytes, len(_ZEROS)):
                    file.write(_ZEROS[: header.size_bytes - start])
                file.flush()
                memory = mmap.mmap(file.fileno(), header.size_bytes)
            stats = cls(memory, header)
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StorageFailed(f"cannot write {path}: {error.strerror}") from error
        return stats

    @classmethod
    def in_memory(
        cls,
        *,
        slots: int = DEFAULT_SLOTS,
        rows: int = DEFAULT_ROWS,
        groups_bytes: int = 0,
        requests: int = DEFAULT_REQUESTS,
        topics: int = DEFAULT_TOPICS,
    ) -> "MmapStats":
        """The same memory without a file, for when the file cannot be created."""
        header = Header(
            *(MAGIC, os.getpid(), 0, 0, 0, 0, slots, rows, 0, b""),
            *(groups_bytes, requests, topics),
        )
        return cls(bytearray(header.size_bytes), header)

    @property
    def row_capacity(self) -> int:
        return self._header.row_capacity

    @property
    def memory(self) -> "mmap.mmap | bytearray":
        return self._memory

    def slot(self, name: str, kind: MetricKind) -> int:
        """The slot of a metric, taken at the first call.

        All names come from tables in the code, so too many or too long names are a bug.
        """
        slot = self._slots.get(name)
        if slot is None:
            slot = len(self._slots)
            encoded = name.encode("ascii")
            ensure(slot < self._header.slot_capacity, f"no slot is left for {name}")
            ensure(len(encoded) <= NAME_MAX, f"{name} is longer than {NAME_MAX} bytes")
            self._slots[name] = slot
            position = self._header.names_at + slot * NAME_BYTES
            self._step(SEQUENCE_AT)
            self._memory[position : position + 2 + len(encoded)] = (
                bytes((kind, len(encoded))) + encoded
            )
            COUNTER_64.pack_into(self._memory, SLOT_COUNT_AT, len(self._slots))
            self._step(SEQUENCE_AT)
        return slot

    @property
    def slots_left(self) -> int:
        """How many more metrics can have a slot."""
        return self._header.slot_capacity - len(self._slots)

    def request_row(self, api: str) -> int:
        """Take a free row for the times of an API's requests."""
        row = len(self._request_names)
        ensure(row < self._header.request_capacity, f"no place is left for the times of {api}")
        ensure(len(api) <= API_NAME_BYTES, f"{api} is longer than {API_NAME_BYTES} bytes")
        self._request_names.append(api)
        start = self._header.requests_at + row * REQUEST_BYTES
        self._memory[start : start + len(api)] = api.encode("ascii")
        return row

    def write_times(self, row: int, numbers: Sequence[int]) -> None:
        """Replace an API's times: for each of PARTS the sum and the counts of its buckets."""
        at = (row * REQUEST_BYTES + API_NAME_BYTES) // 8
        times = self._request_numbers
        for position, number in enumerate(numbers, at):
            times[position] = number

    @property
    def topic_capacity(self) -> int:
        return self._header.topic_capacity

    def write_topic(self, index: int, name: str, values: Sequence[int]) -> None:
        """Replace a topic's row: its name, and a value for each of `kafka_names.TOPIC_METRICS`."""
        encoded = name.encode("ascii", "replace")
        self._write_topic(index, TOPIC.pack(len(encoded), *values, encoded))

    def free_topic(self, index: int) -> None:
        """Clear a topic's row."""
        self._write_topic(index, _FREE_TOPIC)

    def write_time(self, wall_ms: WallMs, now_ms: MonotonicMs) -> None:
        """Store the current wall and monotonic time, to show that the writer is alive."""
        TWO_TIMES.pack_into(self._memory, WRITTEN_AT, wall_ms, now_ms)

    def write_row(self, index: int, row: QuotaRow) -> None:
        self._write_row(index, row.pack())

    def free_row(self, index: int) -> None:
        """Clear a quota row."""
        self._write_row(index, _FREE)

    @property
    def groups_capacity(self) -> int:
        """The bytes that `write_groups` can store; 0 if nobody could read them."""
        return self._header.groups_capacity

    def write_groups(self, lines: bytes | bytearray) -> None:
        """Replace the section of groups. `lines` fits into `groups_capacity`."""
        start = self._header.groups_at
        ensure(len(lines) <= self._header.groups_capacity, f"{len(lines)} bytes are too many")
        self._step(start)
        COUNTER_64.pack_into(self._memory, start + GROUPS_LENGTH_AT, len(lines))
        self._memory[start + GROUPS_TEXT_AT : start + GROUPS_TEXT_AT + len(lines)] = lines
        self._step(start)

    def _write_row(self, index: int, packed: bytes) -> None:
        position = self._header.rows_at + index * ROW_BYTES
        self._step(position)
        self._memory[position + ROW_AT : position + ROW_BYTES] = packed
        self._step(position)

    def _write_topic(self, index: int, packed: bytes) -> None:
        position = self._header.topics_at + index * TOPIC_BYTES
        self._step(position)
        self._memory[position + 8 : position + TOPIC_BYTES] = packed
        self._step(position)

    def _step(self, position: int) -> None:
        sequence = COUNTER_64.unpack_from(self._memory, position)[0]
        COUNTER_64.pack_into(self._memory, position, sequence + 1)
