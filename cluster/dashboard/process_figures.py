"""The operating system's figures of a broker's process, under the names of other exporters."""

from typing import NamedTuple

import psutil


class ProcessFigures(NamedTuple):
    """The figures of one process at one moment."""

    cpu_s: float
    """User and system time of all of its threads."""
    resident_bytes: int
    open_files: int
    files_max: int | None
    """The limit of open files; None if the system does not report it (macOS)."""
    started_s: float
    """In seconds since 1970."""


def process_figures(pid: int) -> ProcessFigures | None:
    """The figures; None if there is no such process, or if it belongs to another user."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            has_limits = hasattr(process, "rlimit")
            return ProcessFigures(
                times.user + times.system,
                process.memory_info().rss,
                process.num_fds(),
                process.rlimit(psutil.RLIMIT_NOFILE)[0] if has_limits else None,
                process.create_time(),
            )
    except psutil.Error:
        return None
