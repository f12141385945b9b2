"""The rollup of the demo: a process that starts Spark while the clients work, and then waits.

Spark's start takes as long as all that follows of a small rollup.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from cluster.supervisor.plan import DataDir

_END_TIMEOUT_S: Final = 20.0


class EarlyRollup:
    """`rollup --when-told` on the cluster of a directory; it prints to this process's streams."""

    def __init__(self, files: DataDir) -> None:
        root = str(Path(__file__).parents[2])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "cluster"),
                *("--data-dir", str(files.path), "rollup", "--when-told"),
            ],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C is for the demo, which then ends it
        )

    def finish(self) -> int:
        """Tell it to roll up, and return its exit status once it has."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as told:
            told.write(b"\n")
        return self._process.wait()

    def end(self) -> None:
        """End it wherever it is, and with it Spark; nothing happens if it has ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
