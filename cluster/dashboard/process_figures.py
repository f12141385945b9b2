"""What the system knows of a broker's process, under the names that every exporter uses."""

from typing import NamedTuple

import psutil


class ProcessFigures(NamedTuple):
    """One process at one moment."""

    cpu_s: float
    """User and system time of all of its threads."""
    resident_bytes: int
    open_files: int
    files_max: int | None
    """How many it may have open; None where the system does not tell (macOS)."""
    started_s: float
    """Since 1970."""


def process_figures(pid: int) -> ProcessFigures | None:
    """None if there is no such process, or it belongs to somebody else."""
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
