"""`stop`: all processes, brokers first; `--purge` also removes the data."""

import argparse
import os
import time
from typing import TYPE_CHECKING, Final

from cluster.datadir.lock_file import hold_lock, is_locked
from cluster.datadir.paths import DataDir
from cluster.datadir.removal import left_lines, remove_data
from cluster.datadir.state_file import read_state
from cluster.datadir.supervisor_socket import NotRunning
from cluster.local.orders import request_stop, wait_until_stopped
from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.tools.arguments import add_command, data_dir

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_PATIENCE_S: Final = 300.0


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `stop` and its options to `subparsers`."""
    parser = add_command(subparsers, "stop", "stop", "stop --purge")
    parser.add_argument("--purge", action="store_true", help="then remove the data directory")


def run(args: argparse.Namespace) -> int:
    """Stop the cluster, wait for the end of all processes, and with --purge remove its data.

    Done, too, if the cluster has stopped already. Raises UserError.
    """
    files = data_dir(args)
    try:
        _stop(files)
    except NotRunning:
        if read_state(files.state_file) is None:
            what = "removed" if args.purge else "stopped"
            raise UserError(
                f"there is no cluster in {shown(files.path)}: nothing was {what}"
            ) from None
        if is_locked(files.lock_file):
            raise UserError(
                f"a cluster is starting in {shown(files.path)}: try again in a moment"
            ) from None
        if not args.purge:
            print("Cluster is stopped already.")
    if args.purge:
        _purge(files)
    else:
        print(f"Data stays in {shown(files.path)}; `stop --purge` removes it.")
    return 0


def _stop(files: DataDir) -> None:
    began = time.monotonic()
    state = request_stop(files)
    count = len(state["brokers"])
    print(f"Stopping {count} broker{'s' if count != 1 else ''} ...", flush=True)
    wait_until_stopped(files, _PATIENCE_S)
    print(f"Cluster stopped in {time.monotonic() - began:.1f} s")


def _purge(files: DataDir) -> None:
    """Remove the data directory, provided that `start` has marked it, and the log directories.

    Raises UserError.
    """
    if read_state(files.state_file) is None:
        raise UserError(f"{files.state_file} is gone: nothing was removed")
    try:
        files.run.mkdir(mode=0o700, exist_ok=True)
        lock = hold_lock(files.lock_file)  # so that no start begins in what is being removed
        if lock is None:
            raise UserError(f"a cluster is starting in {shown(files.path)}: nothing was removed")
        left = remove_data(files)
        os.close(lock)
    except OSError as problem:
        raise UserError(
            f"cannot remove all of {shown(files.path)}: {problem.filename}: {problem.strerror}"
        ) from None
    print(f"Removed {shown(files.path)}.")
    for line in left_lines(left):
        print(line)
