"""The partition directory that is imported: its segments, up to where they are sound.

Read twice: first every batch is checked, and the end of every transaction is noted; then the
batches are made fit to be produced.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from cluster.log.checkpoints import LOG_START_OFFSETS, DamagedCheckpoint, read_offsets
from cluster.log.directories import parse_directory_name
from cluster.log.segment_paths import LOG_SUFFIX
from cluster.model.errors import UserError
from cluster.model.ids import TopicPartition
from cluster.records.batch import BatchHeader, read_header
from cluster.records.conversion import converted
from cluster.records.legacy import Message
from cluster.records.renumber import NewBatch as ToProduce
from cluster.records.renumber import renumbered
from cluster.tools.import_log.transactions import Outcome, Transactions
from cluster.tools.stored_batches import (
    AllocatedAhead,
    NewBatch,
    OldMessage,
    StoredBatch,
    Unreadable,
    stored_batches,
)
from cluster.tools.stored_file import StoredFile, opened

_LOCK: Final = ".lock"
_CONTROL_KEY: Final = Struct(">hh")


@dataclass(slots=True)
class LeftOut:
    """What is not imported, and why."""

    control_batches: int = 0
    aborted_records: int = 0
    open_records: int = 0
    """Of transactions that have no end in this log."""
    earlier_records: int = 0
    """Before the log start offset, or the offset to begin at."""


@dataclass(slots=True)
class Source:
    """A checked partition directory."""

    directory: Path
    partition: TopicPartition | None
    """As the directory's name says."""
    start_offset: int
    """Records before it are not imported."""
    segments: list[tuple[Path, int]]
    """Each with the bytes of it that are sound."""
    transactions: Transactions
    damage: str | None
    """Where the log stops being sound, and why, in one line."""
    left_out: LeftOut = field(default_factory=LeftOut)
    converted_records: int = 0
    newest_ms: int = -1
    """The largest timestamp; -1 without one."""

    @property
    def size_bytes(self) -> int:
        """Bytes that are to be read."""
        return sum(size for _, size in self.segments)


class Part(NamedTuple):
    """A batch to produce."""

    batch: ToProduce
    next_offset: int
    """The offset in the source after its last record."""
    read_bytes: int
    """Bytes of the source up to here."""


def check(directory: Path, from_offset: int = 0) -> Source:
    """Read a directory through, without sending anything. Raises UserError."""
    names = _segments(directory)
    _check_unlocked(directory)
    partition = parse_directory_name(directory.resolve().name)
    source = Source(
        directory,
        partition,
        max(from_offset, _log_start(directory, partition)),
        segments=[],
        transactions=Transactions(),
        damage=None,
    )
    for path in names:
        with opened(path) as file:
            sound_bytes, problem = _check_segment(file, source, is_last=path == names[-1])
        source.segments.append((path, sound_bytes))
        if problem is not None:
            source.damage = f"{path} is damaged at byte {sound_bytes}: {problem}"
            break
    return source


def parts(source: Source) -> Iterator[Part]:
    """What is to be produced, in order; counts what is left out.

    Raises Refused for damage inside a compressed batch that the check could not see.
    """
    before = 0
    for path, size in source.segments:
        with opened(path) as file:
            stored = stored_batches(file, 0, size)
            for is_old, run in groupby(stored, lambda batch: isinstance(batch, OldMessage)):
                for batch, header, end in _old(run) if is_old else _new(run):
                    part = _part(source, header, batch, is_old=is_old)
                    if part is not None:
                        yield Part(part, header.last_offset + 1, before + end)
        before += size


def _segments(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise UserError(f"{directory} is not a directory")
    found = [
        path
        for path in directory.glob(f"*{LOG_SUFFIX}")
        if path.stem.isascii() and path.stem.isdigit()
    ]
    if not found:
        raise UserError(
            f"{directory} is not the directory of a partition: it has no segment,"
            " like 00000000000000000000.log"
        )
    return sorted(found, key=lambda path: int(path.stem))


def _check_unlocked(directory: Path) -> None:
    """Raise UserError if a broker, ours or Kafka's, is using the log directory."""
    with suppress(FileNotFoundError, PermissionError, IsADirectoryError):
        descriptor = os.open(directory.resolve().parent / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise UserError(
                f"{directory.parent} is in use by a broker; stop it, or copy the directory first"
            ) from None
        finally:
            os.close(descriptor)


def _log_start(directory: Path, partition: TopicPartition | None) -> int:
    """The offset before which records were deleted, where the checkpoint beside tells it."""
    with suppress(DamagedCheckpoint, OSError):
        offsets = read_offsets(directory.resolve().parent / LOG_START_OFFSETS)
        if partition is not None:
            return offsets.get(partition, 0)
    return 0


def _check_segment(file: StoredFile, source: Source, *, is_last: bool) -> tuple[int, str | None]:
    """The bytes of a segment that are sound, and what is wrong there, if anything."""
    position = 0
    try:
        for batch in stored_batches(file):
            if not batch.is_valid:
                return position, "checksum does not match"
            _note(batch, source.transactions)
            source.newest_ms = max(source.newest_ms, _largest_timestamp(batch))
            position = batch.position + len(batch.content)
    except AllocatedAhead:
        return position, None if is_last else "only zeros follow, before another segment"
    except Unreadable as problem:
        return position, str(problem)
    left = file.size_bytes - position
    if left and not (is_last and file.is_zero_from(position)):
        return position, f"the last {left} bytes are not a whole batch"
    return position, None


def _largest_timestamp(batch: StoredBatch) -> int:
    if isinstance(batch, OldMessage):
        return batch.message.timestamp_ms
    return batch.header.max_timestamp


def _note(batch: StoredBatch, transactions: Transactions) -> None:
    """Take a batch into account. Raises Unreadable if the messages in an old one are damaged."""
    if isinstance(batch, OldMessage):
        for _, message in batch.records():
            if message is not None and not message.is_valid:
                raise Unreadable(f"checksum of a message inside that at byte {batch.position}")
        return
    header = batch.header
    if header.is_control and header.is_transactional:
        for record, _ in batch.records():
            if record.key is not None and len(record.key) >= _CONTROL_KEY.size:
                _, kind = _CONTROL_KEY.unpack_from(record.key)
                transactions.ended(header.producer_id, record.offset, is_commit=kind == 1)


class _OldMessages:
    """The messages of a run, and the position after the last one that was taken."""

    def __init__(self, run: Iterator[StoredBatch]) -> None:
        self.end = 0
        self._run = run

    def __iter__(self) -> Iterator[Message]:
        for stored in self._run:
            assert isinstance(stored, OldMessage)
            self.end = stored.position + len(stored.content)
            yield stored.message


def _old(run: Iterator[StoredBatch]) -> Iterator[tuple[memoryview, BatchHeader, int]]:
    messages = _OldMessages(run)
    for batch in converted(messages):
        yield memoryview(batch), read_header(batch), messages.end


def _new(run: Iterator[StoredBatch]) -> Iterator[tuple[memoryview, BatchHeader, int]]:
    for stored in run:
        assert isinstance(stored, NewBatch)
        yield stored.content, stored.header, stored.position + len(stored.content)


def _part(
    source: Source, header: BatchHeader, batch: memoryview, *, is_old: bool
) -> ToProduce | None:
    """The batch to produce; None when none of its records is imported."""
    left_out = source.left_out
    if header.is_control:
        left_out.control_batches += 1
        return None
    count = header.record_count
    if header.is_transactional:
        match source.transactions.outcome(header.producer_id, header.last_offset):
            case Outcome.ABORTED:
                left_out.aborted_records += count
                return None
            case Outcome.OPEN:
                left_out.open_records += count
                return None
            case Outcome.COMMITTED:
                pass
    is_wanted = None
    if header.base_offset < source.start_offset:
        if header.last_offset < source.start_offset:
            left_out.earlier_records += count
            return None

        def is_wanted(offset: int) -> bool:
            return offset >= source.start_offset

    part = renumbered(header, batch, is_wanted)
    kept = 0 if part is None else part.record_count
    left_out.earlier_records += count - kept
    if is_old:
        source.converted_records += kept
    return part
