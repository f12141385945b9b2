"""What `start` and `status` print: phases with elapsed time, the process table, next steps.

The only module of the supervisor that prints.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cluster.model import printable
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime.installation import launcher, shown
from cluster.runtime.loop import EventLoop
from cluster.runtime.text_table import table_text
from cluster.supervisor.console_stream import ConsoleStream
from cluster.supervisor.plan import DataDir

_LAST_LOG_LINES: Final = 8


class Console:
    """Prints without ever blocking: a paused or closed terminal must not stop a cluster."""

    def __init__(self, loop: EventLoop) -> None:
        self._stdout = ConsoleStream(1, loop)
        self._stderr = ConsoleStream(2, loop)

    def mute(self) -> None:
        """Print nothing more: the shell has the terminal back (`start --detach`)."""
        self._stdout.close()
        self._stderr.close()

    def finish(self) -> None:
        """Write all output still buffered, blocking if necessary; at the end of the process."""
        self._stdout.finish()
        self._stderr.finish()

    def close_inherited(self) -> None:
        """In a forked child: close the inherited descriptors of the terminal."""
        self._stdout.close_inherited()
        self._stderr.close_inherited()

    def when_all_is_said(self, callback: Callable[[], None]) -> None:
        """Call `callback` once everything printed so far is written, possibly at once."""
        self._stdout.when_drained(callback)

    def say(self, text: str = "") -> None:
        """Print one or more lines on stdout."""
        self._stdout.write(printable.lines(text) + "\n")

    def phase(self, what: str, outcome: str, elapsed_ms: int) -> None:
        """Print a finished phase of starting and how long it took."""
        self.say(f"  {what:<10}{outcome:<52}{elapsed_ms / 1000:>6.1f} s")

    def complain(self, text: str) -> None:
        """Print one line on stderr."""
        self._stderr.write(printable.lines(text) + "\n")


def table(state: Mapping[str, Any]) -> str:
    """The table of all processes of a cluster, from its state as `status` returns it."""
    data_dir = DataDir(Path(state["data_dir"]))
    rows = []
    registry = state["registry_process"]
    if registry is None:
        rows.append(("registry", "not ours", state["registry"], "-", "-"))
    else:
        rows.append(_row("registry", registry, data_dir.log("registry")))
    rows += [
        _row(f"broker {broker['id']}", broker, data_dir.log(f"broker-{broker['id']}"))
        for broker in state["brokers"]
    ]
    return table_text(("NODE", "STATUS", "ADDRESS", "PID", "LOG"), rows)


def how_to_go_on(state: Mapping[str, Any], *, foreground: bool) -> str:
    """The text after a start: process table, bootstrap servers, examples, paths, how to stop."""
    data_dir = DataDir(Path(state["data_dir"]))
    replicas = min(3, len(state["brokers"]))
    command = launcher(data_dir.path)
    stop = f"`{command} stop`"
    if foreground:
        stop = f"Ctrl-C, or {stop} elsewhere"
    return f"""
{table(state)}

BOOTSTRAP={state["bootstrap"]}

Try it:
  {command} topics --create --topic hello --partitions 3 --replication-factor {replicas}
  echo "hello, world" | {command} produce --topic hello
  {command} consume --topic hello --from-beginning --max-messages 1

Data is in {shown(data_dir.path)}, logs are in {shown(data_dir.logs)}. {_reach(state)}
Stop with {stop}; data stays until `stop --purge`.
"""


def last_lines(log_file: Path, begin_bytes: int) -> Iterable[str]:
    """The end of a log, no earlier than `begin_bytes`, for a child that could not start."""
    try:
        with log_file.open("rb") as lines:
            was_rotated = os.fstat(lines.fileno()).st_size < begin_bytes
            lines.seek(0 if was_rotated else begin_bytes)
            last = deque(lines, maxlen=_LAST_LOG_LINES)
            return [line.decode("utf-8", "replace").rstrip("\n") for line in last]
    except OSError:
        return []


def _row(node: str, process: Mapping[str, Any], log: Path) -> tuple[str, str, str, str, str]:
    pid = "-" if process["pid"] is None else str(process["pid"])
    return (
        node,
        _status(process),
        f"{process['host']}:{process['port']}",
        pid,
        shown(log),
    )


def _status(process: Mapping[str, Any]) -> str:
    recovery = process.get("recovery")
    if recovery is None:
        return str(process["state"])
    return RecoveryProgress.from_json(recovery).text


def _reach(state: Mapping[str, Any]) -> str:
    hosts = {broker["host"] for broker in state["brokers"]}
    if hosts <= {"127.0.0.1", "localhost", "::1"}:
        return "Only this machine can connect."
    return f"Brokers listen on {', '.join(sorted(hosts))}: there is no authentication."
