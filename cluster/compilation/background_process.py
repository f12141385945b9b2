"""Starts a build in the background, after the first work of a command is done."""

import os
import subprocess
import sys
from typing import Final

from cluster.compilation.build_files import BuildFiles, is_checkout
from cluster.compilation.compiler import missing_compiler

_BUILD: Final = "cluster.compilation.build_process"
# The shell ends at once, so the build has no parent that would have to wait for it.
_IN_BACKGROUND: Final = '"$@" &'


def begin_build(files: BuildFiles) -> bool:
    """Start a process that makes a build, unless one is current, cannot be made, or has failed.

    The process has the lowest priority and a session of its own, and keeps no terminal and no pipe
    of this one open. Returns whether it was started.
    """
    if files.current() is not None or files.failed() is not None:
        return False
    if files.is_building() or obstacle(files) is not None:
        return False
    try:
        subprocess.run(
            ["/bin/sh", "-c", _IN_BACKGROUND, "sh", sys.executable, "-P", "-m", _BUILD],
            cwd=files.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return False  # the cluster runs; the next start tries again
    return True


def obstacle(files: BuildFiles) -> str | None:
    """Why no build can be made here in the background, in a few words."""
    environment = files.folder.parent
    if os.environ.get("CI"):
        return "CI is set"
    if not is_checkout():
        return "an installed package is compiled by pip or not at all"
    if environment.is_symlink():
        return f"{environment.name} is a link, so builds would be another checkout's"
    if not os.access(environment, os.W_OK):
        return f"{environment.name} cannot be written"
    return missing_compiler()
