"""Removes a data directory with all that belongs to its cluster."""

import shutil

from cluster.datadir.log_dirs import remembered_directories, remove_directories
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import read_state


def remove_data(files: DataDir) -> None:
    """Remove the log directories elsewhere, then the data directory.

    The caller holds its lock, or knows that no other process will. Raises OSError, and UserError
    for a state file that cannot be read.
    """
    state = read_state(files.state_file)
    for directories in remembered_directories(state, files.path).values():
        remove_directories(directories)
    shutil.rmtree(files.path.resolve())
    if files.path.is_symlink():
        files.path.unlink()


def remove_all_but_logs(files: DataDir) -> None:
    """Remove what `remove_data` removes, except the logs of the processes. Raises as that."""
    state = read_state(files.state_file)
    for directories in remembered_directories(state, files.path).values():
        remove_directories(directories)
    for path in files.path.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path != files.logs:
                shutil.rmtree(path)
        else:
            path.unlink()
