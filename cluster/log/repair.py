"""Repairs the files of one log after an unclean stop, so that it opens as after a clean one.

Repair persists the result of a recovery: the log truncated at its first bad byte, indexes, epochs,
and a producer snapshot at the log end. Nothing is synced, and a crash at any point leaves a log
that is recovered again.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.log.options import LogOptions
from cluster.log.producer_snapshots import write_snapshot
from cluster.log.recovery import LastStop, recover
from cluster.log.segment_paths import LOG_SUFFIX
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset, TopicPartition

_NO_LIMIT: Final = Offset(2**63 - 1)
"""The high watermark of a log for which nobody asks whether transactions are decided."""


@dataclass(frozen=True, slots=True)
class LogToRepair:
    """A log of a directory that was not cleanly shut down, with its checkpointed offsets."""

    partition: TopicPartition
    directory: Path
    recovery_point: Offset
    log_start_offset: Offset
    unchecked_bytes: int
    """Size of the segment files that hold anything beyond the recovery point."""
    lacks_unsynced: bool = False
    """Whether the machine went down: what was not synced may be lost."""


def unchecked_bytes(directory: Path, recovery_point: Offset) -> int:
    """The number of bytes that a recovery from this point has to read. Raises OSError."""
    bases: list[int] = []
    sizes: list[int] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            stem, _, ending = entry.name.rpartition(".")
            if f".{ending}" == LOG_SUFFIX and stem.isdigit():
                bases.append(int(stem))
                sizes.append(entry.stat().st_size)
    first = max((base for base in bases if base <= recovery_point), default=0)
    return sum(size for base, size in zip(bases, sizes, strict=True) if base >= first)


def repair(
    log: LogToRepair,
    options: LogOptions,
    wall_ms: WallMs,
    on_checked: Callable[[int], None],
) -> None:
    """Check a log beyond its recovery point and leave its files as after a clean stop.

    `on_checked` gets the number of bytes checked since its last call. Raises StorageFailed.
    """
    stop = LastStop(
        is_clean=False,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
        high_watermark=_NO_LIMIT,
        lacks_unsynced=log.lacks_unsynced,
    )
    found = recover(log.directory, options, stop, wall_ms, on_checked)
    active = found.segments[-1]
    active.file.seal()
    active.write_indexes()
    found.epochs.write_if_behind()
    write_snapshot(log.directory, found.log_end_offset, found.producers.entries)
