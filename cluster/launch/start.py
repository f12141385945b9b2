"""Starts a cluster, in this process or in the background."""

from collections.abc import Callable

from cluster.datadir.lock_file import hold_lock
from cluster.datadir.paths import DataDir
from cluster.launch.directories import claim_directory
from cluster.launch.options import StartOptions
from cluster.launch.plan import make_plan
from cluster.launch.protection import write_files_for_clients
from cluster.model.errors import UserError
from cluster.supervisor.daemon import run_in_background
from cluster.supervisor.supervise import supervise


def start(
    options: StartOptions,
    began_ms: int,
    note: Callable[[str], None],
    after_up: Callable[[], None] | None = None,
) -> int:
    """Start the cluster and, unless detached, stay until it has stopped. Returns the exit status.

    `began_ms`: when the command began, on the monotonic clock. `note` shows a remark to the user.
    `after_up` is called when the cluster is up, unless it is detached. Raises UserError.
    """
    files = DataDir(options.data_dir)
    claim_directory(files, options.log_dirs)
    try:
        lock = hold_lock(files.lock_file)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None
    if lock is None:
        raise UserError(f"another start or stop is at work in {files.path}: try again in a moment")
    plan = make_plan(options, note)
    write_files_for_clients(files, plan)
    if not options.detach:
        return supervise(plan, lock, began_ms, after_up=after_up, lifeline=options.lifeline)
    return run_in_background(
        lambda on_up: supervise(plan, lock, began_ms, on_up=on_up, lifeline=options.lifeline),
        files.log("supervisor"),
    )
