"""Removes a data directory with all that belongs to its cluster."""

import shutil
from pathlib import Path

from cluster.datadir.log_dirs import (
    remembered_directories,
    remove_directories,
    shared_directories,
)
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import read_state


def remove_data(files: DataDir) -> list[Path]:
    """Remove the log directories elsewhere, then the data directory.

    Returns the log directories that are left, because they may belong to the original of a copy.
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


def _remove_log_directories(files: DataDir) -> list[Path]:
    state = read_state(files.state_file)
    left = shared_directories(state, files.path)
    for directories in remembered_directories(state, files.path).values():
        remove_directories([path for path in directories if path not in left])
    return [path.resolve() for path in left if path.exists()]
