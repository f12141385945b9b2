"""Runs a real supervisor over children that only wait: `dummy_cluster.py DATA_DIR BROKERS`.

Each child notes in `events` when it starts and when it is told to stop. A broker whose number is in
the file `stubborn` ignores SIGTERM; one whose number is in `broken` cannot start.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.datadir.lock_file import hold_lock
from cluster.datadir.paths import DataDir
from cluster.model.cluster_view import ClusterView
from cluster.model.errors import StorageFailed
from cluster.runtime.stop_signals import CLUSTER_STOPS
from cluster.supervisor.child import RestartPolicy
from cluster.supervisor.plan import ChildSpec, ClusterPlan, NewBroker, Reports
from cluster.supervisor.supervise import supervise


def is_listed(files: DataDir, name: str, broker_id: int | None) -> bool:
    path = files.path / name
    return path.exists() and str(broker_id) in path.read_text().split()


def child(files: DataDir, name: str, broker_id: int | None, view: ClusterView) -> ChildSpec:
    def note(event: str) -> None:
        with (files.path / "events").open("a") as events:
            events.write(f"{name} {event} {os.getpid()}\n")

    def run(reports: Reports) -> None:
        if is_listed(files, "broken", broker_id):
            raise StorageFailed("the disk is somebody else's")
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        # Not a handler of Python's, which waits for the end of a `recv` that has just begun.
        signal.set_wakeup_fd(writer.fileno())
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(CLUSTER_STOPS, signal.SIG_IGN)
        note("started")
        reports.view(view)
        reports.ready({})
        while reader.recv(1):
            note("told to stop")
            if not is_listed(files, "stubborn", broker_id):
                return

    return ChildSpec(name, name.replace("-", " "), "127.0.0.1", 1, run, broker_id)


def main(data_dir: Path, broker_count: int) -> int:
    files = DataDir(data_dir)
    files.run.mkdir(parents=True)
    files.logs.mkdir()
    lock = hold_lock(files.lock_file)
    assert lock is not None
    view = ClusterView("dummies", 0, frozenset(range(broker_count)))
    brokers = tuple(
        child(files, f"broker-{number}", number, view) for number in range(broker_count)
    )

    def grow(new: NewBroker, present: Sequence[ChildSpec]) -> ChildSpec:
        taken = [*new.in_use, *(each.broker_id or 0 for each in present)]
        chosen = max(taken) + 1 if new.id is None else new.id
        return child(files, f"broker-{chosen}", chosen, view)

    plan = ClusterPlan(
        data_dir,
        child(files, "registry", None, view),
        "127.0.0.1:1",
        brokers,
        grow=grow,
    )
    return supervise(
        plan,
        lock,
        time.monotonic_ns() // 1_000_000,
        policy=RestartPolicy(backoff_ms=100, stop_timeout_ms=60_000),
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
