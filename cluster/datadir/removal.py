"""Removes a data directory with all that belongs to its cluster."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cluster.datadir.directory_claims import why_kept
from cluster.datadir.log_dirs import (
    META_PROPERTIES,
    remembered_directories,
    shared_directories,
)
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import read_state
from cluster.runtime.installation import shown


class Left(NamedTuple):
    """A log directory that was not removed."""

    path: Path
    why: str
    """A sentence that follows its name."""


def remove_data(files: DataDir) -> list[Left]:
    """Remove the log directories elsewhere, then the data directory.

    Returns the log directories that are left, because they may belong to another data directory.
    The caller holds its lock, or knows that no other process will. Raises OSError, and UserError
    for a state file that cannot be read.
    """
    left = _remove_log_directories(files)
    shutil.rmtree(files.path.resolve())
    if files.path.is_symlink():
        files.path.unlink()
    return left


def remove_all_but_logs(files: DataDir) -> None:
    """Remove what `remove_data` removes, except the logs of the processes. Raises as that."""
    _remove_log_directories(files)
    for path in files.path.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path != files.logs:
                shutil.rmtree(path)
        else:
            path.unlink()


def remove_directories(
    directories: Mapping[int, Sequence[Path]], cluster_id: str | None, data_dir: Path
) -> list[Left]:
    """Remove log directories of brokers; what was never made is skipped.

    Only what a broker of this cluster has marked as its own, and no other data directory uses;
    returns the others. Raises OSError.
    """
    left = []
    for broker, paths in directories.items():
        for path in paths:
            if not (path / META_PROPERTIES).exists():
                continue
            why = why_kept(path, broker, cluster_id, data_dir)
            if why is None:
                shutil.rmtree(path)
            else:
                left.append(Left(path.resolve(), why))
    return left


def left_lines(left: Iterable[Left]) -> list[str]:
    """What is left and why, one line for each reason."""
    by_reason: dict[str, list[Path]] = defaultdict(list)
    for path, why in left:
        by_reason[why].append(path)
    return [f"Left {', '.join(map(shown, paths))}: {why}" for why, paths in by_reason.items()]


def _remove_log_directories(files: DataDir) -> list[Left]:
    state = read_state(files.state_file) or {}
    shared = shared_directories(state, files.path)
    directories = {
        broker: [path for path in paths if path not in shared]
        for broker, paths in remembered_directories(state, files.path).items()
    }
    why = (
        f"at the last start, {shown(files.path)} was {shown(Path(state.get('data_dir', '')))}. If"
        " that was moved, not copied, remove them yourself."
    )
    left = [Left(path.resolve(), why) for path in shared if path.exists()]
    return [*left, *remove_directories(directories, state.get("cluster_id"), files.path)]
