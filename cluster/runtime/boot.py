"""Identifies the current boot of the machine: a new boot loses unsynced writes."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

_LINUX: Final = Path("/proc/sys/kernel/random/boot_id")
_NAME_MAX: Final = 200
_MAC: Final = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]


def boot_id() -> str:
    """The boot id, which is constant until a reboot; empty if the system has none."""
    try:
        if sys.platform == "darwin":
            asked = subprocess.run(_MAC, capture_output=True, text=True, timeout=5, check=True)
            return asked.stdout.strip()
        return _LINUX.read_text("ascii").strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def machine_name() -> str:
    """The name of the host with its boot id: processes with the same one can share files.

    The host name alone would not do, because copies of a machine have the same one.
    """
    return f"{socket.gethostname()[:_NAME_MAX]} {boot_id()}"
