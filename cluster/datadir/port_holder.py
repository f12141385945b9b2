"""Finds who listens on a port of this machine, as far as the user may see it."""

from pathlib import Path

import psutil

from cluster.datadir.paths import DataDir
from cluster.runtime.installation import shown


def port_holder(port: int) -> str:
    """Names the cluster by its data directory, another program by name and pid."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return "another program"
    listening = [each for each in connections if each.status == psutil.CONN_LISTEN]
    pids = [each.pid for each in listening if each.laddr.port == port]
    for pid in pids:
        if pid is not None:
            try:
                return _described(psutil.Process(pid))
            except (psutil.Error, OSError):
                continue  # it has ended, or is another user's
    return "a program of another user" if pids else "another program"


def _described(process: psutil.Process) -> str:
    for opened in process.open_files():
        path = Path(opened.path)
        files = DataDir(path.parent.parent)
        if path.parent == files.logs and files.state_file.exists():
            return f"the Milena cluster in {shown(files.path)}"
    return f"{process.name()} (pid {process.pid})"
