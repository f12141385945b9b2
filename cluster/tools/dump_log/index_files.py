"""The lines of `.index` and `.timeindex` files, and what contradicts the log beside them."""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cluster.log.segment_paths import INDEX_SUFFIX, LOG_SUFFIX
from cluster.tools.dump_log.report import Report, note
from cluster.tools.stored_batches import (
    NO_LIMIT,
    AllocatedAhead,
    StoredBatch,
    Unreadable,
    stored_batches,
)
from cluster.tools.stored_file import StoredFile, opened, opened_if_there

_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_NO_TIMESTAMP: Final = -1


class IndexOptions(NamedTuple):
    """What is done with an index."""

    checks_sanity_only: bool
    """Make only the check that decides at a start whether it is rebuilt."""
    verifies_only: bool
    """Compare with the log, print no entry."""
    max_message_bytes: int


def index_lines(file: StoredFile, options: IndexOptions, report: Report) -> Iterator[str]:
    """Text to print of an `.index`. Raises Unreadable, UserError."""
    base = file.base_offset
    with opened(_beside(file.path, LOG_SUFFIX)) as log:
        entries = _index_entries(file)
        if not entries:
            yield f"{file.path} is empty."
            return
        if options.checks_sanity_only:
            _check_index(file, entries)
            yield f"{file.path} passed sanity check."
            return
        for slot, (relative, position) in enumerate(entries):
            offset = base + relative
            if slot and not relative:  # entries that were allocated ahead
                return
            found = next(_batches(log, position, options.max_message_bytes), None)
            if found is None:
                raise Unreadable(f"no batch at position {position}, which offset {offset} has")
            if found.last_offset != offset:
                note(report.index_mismatches, file.path, offset, found.last_offset)
            if not options.verifies_only:
                yield f"offset: {offset} position: {position}"


def time_index_lines(file: StoredFile, options: IndexOptions, report: Report) -> Iterator[str]:
    """Text to print of a `.timeindex`. Raises Unreadable, UserError."""
    base = file.base_offset
    with (
        opened(_beside(file.path, LOG_SUFFIX)) as log,
        opened_if_there(_beside(file.path, INDEX_SUFFIX)) as index,
    ):
        content = file.all()
        entries = list(_TIME_ENTRY.iter_unpack(content[: len(content) // 12 * 12]))
        if options.checks_sanity_only:
            _check_time_index(file, entries)
            yield f"{file.path} passed sanity check."
            return
        positions = _index_entries(index)
        previous_ms = _NO_TIMESTAMP
        for slot, (timestamp_ms, relative) in enumerate(entries):
            if slot and not relative:
                return
            offset = base + relative
            before = bisect_right(positions, relative, key=lambda entry: entry[0])
            position = positions[before - 1][1] if before else 0
            found = next(
                (one for one in _batches(log, position, NO_LIMIT) if one.last_offset >= offset),
                None,
            )
            if found is None or found.last_offset != offset:
                last_offset = -1 if found is None else found.last_offset
                note(report.offsets_not_found, file.path, offset, last_offset)
            else:
                stamps = [read.record.timestamp_ms for read in found.records()]
                largest_ms = max(stamps, default=_NO_TIMESTAMP)
                if largest_ms != timestamp_ms:
                    note(report.timestamp_mismatches, file.path, timestamp_ms, largest_ms)
                if previous_ms >= timestamp_ms:
                    note(report.timestamps_out_of_order, file.path, timestamp_ms, previous_ms)
            if not options.verifies_only:
                yield f"timestamp: {timestamp_ms} offset: {offset}"
            previous_ms = timestamp_ms


def _batches(log: StoredFile, position: int, max_bytes: int) -> Iterator[StoredBatch]:
    if not 0 <= position <= log.size_bytes:
        raise Unreadable(
            f"Slice from position {position} exceeds end position of {log.path.name}"
            f" ({log.size_bytes})"
        )
    with suppress(AllocatedAhead):
        yield from stored_batches(log, position, max_bytes)


def _index_entries(file: StoredFile) -> list[tuple[int, int]]:
    content = file.all()
    return list(_INDEX_ENTRY.iter_unpack(content[: len(content) // 8 * 8]))


def _check_index(file: StoredFile, entries: list[tuple[int, int]]) -> None:
    last_offset = file.base_offset + entries[-1][0]
    if last_offset < file.base_offset:
        raise Unreadable(
            f"Corrupt index found, index file {file.path.absolute()} has non-zero size but the"
            f" last offset is {last_offset} which is less than the base offset {file.base_offset}"
        )
    _check_size(file, "Index file", _INDEX_ENTRY.size)


def _check_time_index(file: StoredFile, entries: list[tuple[int, int]]) -> None:
    if entries:
        (first_ms, _), (last_ms, relative) = entries[0], entries[-1]
        found = f"Corrupt time index found, time index file ({file.path.absolute()})"
        if last_ms < first_ms:
            raise Unreadable(
                f"{found} has non-zero size but the last timestamp is {last_ms} which is less than"
                f" the first timestamp {first_ms}"
            )
        if relative < 0:
            raise Unreadable(
                f"{found} has non-zero size but the last offset is {file.base_offset + relative}"
                f" which is less than the first offset {file.base_offset}"
            )
    _check_size(file, "Time index file", _TIME_ENTRY.size)


def _check_size(file: StoredFile, kind: str, entry_bytes: int) -> None:
    if file.size_bytes % entry_bytes:
        raise Unreadable(
            f"{kind} {file.path.absolute()} is corrupt, found {file.size_bytes} bytes which is"
            f" neither positive nor a multiple of {entry_bytes}"
        )


def _beside(path: Path, suffix: str) -> Path:
    """The other file of the same segment."""
    return path.with_name(path.name.partition(".")[0] + suffix)
