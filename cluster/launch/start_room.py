"""Whether the disks have room for a start, looked at before anything is started."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cluster.datadir.paths import DataDir
from cluster.model.errors import UserError
from cluster.model.sizes import size_text
from cluster.runtime.installation import shown

_SHARED_BYTES: Final = 1 << 20
"""For logs, sockets and small files of every start."""
_REGISTRY_BYTES: Final = 4 << 20
"""For the journal of a new registry and its reserve."""
_BROKER_BYTES: Final = 1 << 20
"""For the first records of a new log directory."""
_RESERVE_SHARE: Final = 10


class _Needs(NamedTuple):
    path: Path
    size_bytes: int


def check_room(
    files: DataDir,
    directories: Mapping[int, Sequence[Path]],
    note: Callable[[str], None],
    *,
    stats_bytes: int,
    reserve_bytes: int,
    has_registry: bool,
) -> None:
    """Raise UserError, with figures, where a disk has no room for what a start writes at least.

    What is there already needs none: a cluster starts on a disk that its records have filled, so
    that some of them can be deleted. `note` is told of log directories that are full. `stats_bytes`
    is what a broker's stats file takes, `reserve_bytes` what records leave free.
    """
    needs = [_Needs(files.path, _SHARED_BYTES)]
    if has_registry and not (files.path / "registry").exists():
        needs.append(_Needs(files.path, _REGISTRY_BYTES))
    for broker, paths in directories.items():
        if not files.stats(broker).exists():
            needs.append(_Needs(files.path, stats_bytes))
        needs += [_Needs(path, 0 if path.exists() else _BROKER_BYTES) for path in paths]
    for path, needed in _by_disk(needs):
        disk = os.statvfs(path)
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        figures = f"{size_text(free)} of {size_text(total)} are free in {shown(path)}"
        if free < needed:
            raise UserError(
                f"there is no room to start: {figures}, and {len(directories)}"
                f" broker{'s' if len(directories) > 1 else ''} need {size_text(needed)} to begin"
                " with: free space there, or choose another --data-dir"
            )
        reserve = min(reserve_bytes, total // _RESERVE_SHARE)
        if free < reserve:
            note(
                f"Warning: the disk is full: {figures}. Brokers take no records there before"
                f" {size_text(reserve * 5 // 4)} are free; deleting topics makes room."
            )


def _by_disk(needs: Iterable[_Needs]) -> list[_Needs]:
    """The sum for each file system, with a directory on it that exists."""
    sums: dict[int, _Needs] = {}
    for path, size_bytes in needs:
        place = next(each for each in (path, *path.parents) if each.exists())
        device = place.stat().st_dev
        known = sums.get(device, _Needs(place, 0))
        sums[device] = _Needs(known.path, known.size_bytes + size_bytes)
    return list(sums.values())
