"""The `.snapshot` files: producer state at the offset in the file name, in Kafka's format.

int16 version 1, uint32 CRC-32C of the rest, int32 count, then 46 bytes for each producer: int64 id,
int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp, int32
coordinator epoch, int64 first offset of the open transaction or -1.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from struct import Struct, error
from typing import Final

from crc32c import crc32c

from cluster.log.checkpoints import replace_file
from cluster.log.files import files_of
from cluster.log.producer_state import AppendedBatch, ProducerEntry
from cluster.model.errors import StorageFailed
from cluster.model.ids import NO_SEQUENCE

SUFFIX: Final = ".snapshot"
_VERSION: Final = 1
_PREFIX: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_NOTHING_APPENDED: Final = AppendedBatch(NO_SEQUENCE, -1, 0, -1)


class DamagedSnapshot(Exception):
    """A damaged or missing snapshot. Recovery uses an older one and replays more batches."""


def snapshot_path(directory: Path, offset: int) -> Path:
    """The snapshot file for an offset."""
    return directory / f"{offset:020d}{SUFFIX}"


def snapshot_offsets(directory: Path) -> list[int]:
    """Offsets of the snapshots in a directory, ascending. Raises StorageFailed."""
    try:
        with os.scandir(directory) as entries:
            return offsets_of_snapshots(entry.name for entry in entries)
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise StorageFailed(f"cannot read {directory}: {problem.strerror}") from problem


def offsets_of_snapshots(names: Iterable[str]) -> list[int]:
    """Offsets of the snapshots among file names, ascending."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def encode_snapshot(entries: Mapping[int, ProducerEntry]) -> bytes:
    content = bytearray(_COUNT.pack(len(entries)))
    for producer_id, entry in entries.items():
        last = entry.batches[-1] if entry.batches else _NOTHING_APPENDED
        content += _ENTRY.pack(
            producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.transaction_offset,
        )
    return _PREFIX.pack(_VERSION, crc32c(content)) + content


def decode_snapshot(content: bytes) -> dict[int, ProducerEntry]:
    """Decode a snapshot file; each entry has only its last batch. Raises DamagedSnapshot."""
    try:
        version, checksum = _PREFIX.unpack_from(content)
        if version != _VERSION:
            raise DamagedSnapshot(f"Snapshot contained an unknown file version {version}")
        (count,) = _COUNT.unpack_from(content, _PREFIX.size)
        rows = list(_ENTRY.iter_unpack(content[_PREFIX.size + _COUNT.size :]))
    except error as problem:
        raise DamagedSnapshot(f"Snapshot failed schema validation: {problem}") from None
    if (computed := crc32c(content[_PREFIX.size :])) != checksum:
        raise DamagedSnapshot(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {checksum}."
            f" Computed crc: {computed}"
        )
    if count != len(rows):
        raise DamagedSnapshot(
            f"Snapshot failed schema validation: expected {count} entries, found {len(rows)}"
        )
    return {row[0]: _entry(*row[1:]) for row in rows}


def _entry(
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry()
    entry.epoch = epoch
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp_ms = timestamp_ms
    entry.transaction_offset = transaction_offset
    if last_offset >= 0:
        entry.batches.append(AppendedBatch(last_sequence, last_offset, offset_delta, timestamp_ms))
    return entry


def write_snapshot(directory: Path, offset: int, entries: Mapping[int, ProducerEntry]) -> Path:
    """Write the snapshot at an offset, without a sync; returns the file. Raises StorageFailed."""
    path = snapshot_path(directory, offset)
    replace_file(path, encode_snapshot(entries), sync=False)
    return path


def remove_snapshot(directory: Path, offset: int) -> None:
    """Delete the snapshot at an offset if it exists. Raises StorageFailed."""
    path = snapshot_path(directory, offset)
    try:
        files_of(path).unlink_if_there(path)
    except OSError as problem:
        raise StorageFailed(f"cannot delete {path}: {problem.strerror}") from problem


def read_snapshot(directory: Path, offset: int) -> dict[int, ProducerEntry]:
    """Read the snapshot at an offset. Raises DamagedSnapshot, also if the file is missing."""
    try:
        return decode_snapshot(files_of(directory).read_file(snapshot_path(directory, offset)))
    except OSError as problem:
        raise DamagedSnapshot(str(problem)) from problem
