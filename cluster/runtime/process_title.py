"""The names of processes in `ps` and `top`, on Linux."""

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

from cluster.runtime.installation import shown

_PR_SET_NAME: Final = 15
_NAME_MAX_BYTES: Final = 15
_ARG_START: Final = 48 - 3
_ARG_END: Final = 49 - 3
"""The places of these fields of proc_pid_stat(5) behind the name of the program, which is the
second field and may contain blanks."""


def title_of(label: str, data_dir: Path, room_bytes: int) -> str:
    """`milena: broker 1 (var)`, with less of the directory where there is no room for it."""
    for place in (shown(data_dir), data_dir.name):
        title = f"milena: {label} ({place})"
        if len(os.fsencode(title)) <= room_bytes:
            return title
    return f"milena: {label}"


def short_name(label: str) -> str:
    """`milena:broker 1`, or without `milena` if there is no room for it."""
    name = f"milena:{label}"
    return name if len(name) <= _NAME_MAX_BYTES else label[:_NAME_MAX_BYTES]


def name_process(label: str, data_dir: Path) -> None:
    """Name this process, in `ps` up to the length of the command line that it began with."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_NAME, short_name(label).encode(), 0, 0, 0)
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    except (OSError, ValueError, IndexError):  # /proc is missing or hidden
        return
    room = end - start - 1  # a zero has to stay at the end
    if start <= 0 or room <= 0:
        return
    title = os.fsencode(title_of(label, data_dir, room))[:room]
    ctypes.memset(start, 0, room)
    ctypes.memmove(start, title, len(title))
