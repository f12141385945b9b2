"""How long a client's records pause when the leader of their partition dies (kill -9).

    PYTHONPATH=. .venv/bin/python -m bench.failover [--kills 50] [--clients librdkafka,java,...]

Three brokers, one topic with three replicas, clients with their default settings (acks=all),
some 1,000 records a second. Every other kill goes through the supervisor; the rest
are plain signals from outside. Before each, the broker that died is back and in sync. Prints one
row per client: the longest pause between two acknowledged (or read) records, per kill. What the
figures mean, and what a shorter --rest changes: docs/failover.md.
Clients that are not on this machine are left out; MILENA_TEST_INSTALL=1 fetches Java's and Go's.
"""

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from tests.compat import kafka_jvm
from tests.compat.client_programs import built
from tests.compat.installing import may_install
from tests.support.running_cluster import Cluster
from tests.support.topics import controller, create_topic, leader, partition_state, wait_for_isr
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parent.parent
ROLES: Final = ("produce", "idempotent", "consume")
PYTHON_CLIENTS: Final = ("librdkafka", "kafka-python", "aiokafka")
GO_CLIENTS: Final = ("franz-go", "sarama")
CLIENTS: Final = ("librdkafka", "java", "kafka-python", "aiokafka", "franz-go", "sarama")
RECORDS_RESUME_S: Final = 60.0
DOWN_S: Final = 2.5
"""A dead broker stays down for so many seconds, or longer until clients are served again."""


class Outcome(NamedTuple):
    """What a client saw of one kill, in milliseconds."""

    pause_ms: float
    election_ms: float
    was_controller: bool


class Client:
    """A running program that writes a line per record; the time of each is taken here."""

    def __init__(self, command: Sequence[str], first_line: str | None) -> None:
        self.times: list[float] = []
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if first_line is not None:
            assert self._process.stdin is not None
            self._process.stdin.write(first_line.encode() + b"\n")
            self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if b"error" in line:
                self.errors.append(line.decode().strip())
            else:
                self.times.append(time.monotonic())

    def pause_ms(self, since: float) -> float:
        """The longest time without a record, in ms, since a monotonic time in seconds."""
        times = [since, *(at for at in self.times if at > since), time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(times)) * 1e3

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()


def command_of(
    name: str, role: str, bootstrap: str, topic: str, kafka: str = kafka_jvm.VERSION
) -> tuple[list[str], str | None]:
    """A client's command and first input line. Raises LookupError if it is not installed.

    `kafka` is the version of the Java client.
    """
    if name.partition(":")[0] in PYTHON_CLIENTS:
        program = [sys.executable, "-P", "-m", "bench.failover_client"]
        return [*program, name, role, bootstrap, topic], None
    if name == "java":
        path, problem = kafka_jvm.class_path(kafka), "Kafka's jars are not here"
        if path is None and may_install():
            problem = kafka_jvm.fetch(version=kafka)
            path = kafka_jvm.class_path(kafka)
        if path is None:
            raise LookupError(problem)
        source = ROOT / "bench" / "FailoverClient.java"
        return ["java", "-cp", path, str(source), role, bootstrap, topic], None
    directory, problem = built(
        ROOT / "tests" / "compat" / "go_clients",
        fetch=["go", "mod", "download"],
        build=["go", "build", "-trimpath", "-o", "go_clients", "."],
    )
    if directory is None:
        raise LookupError(problem)
    action = "follow" if role == "consume" else "stream"
    idempotent = "true" if role == "idempotent" else "false"
    servers = ", ".join(f'"{one}"' for one in bootstrap.split(","))
    return [str(directory / "go_clients")], (
        f'{{"action": "{action}", "library": "{name}", "bootstrap": [{servers}],'
        f' "topic": "{topic}", "partitions": 1, "compression": "none", "acks": "all",'
        f' "idempotent": {idempotent}, "defaults": true}}'
    )


@contextmanager
def running(name: str, role: str, cluster: Cluster, topic: str) -> Iterator[Client]:
    """A client at work; a consumer is fed by a librdkafka producer."""
    client = Client(*command_of(name, role, cluster.bootstrap, topic))
    feeder = None
    if role == "consume":
        feeder = Client(*command_of("librdkafka", "produce", cluster.bootstrap, topic))
    try:
        wait_until(lambda: len(client.times) > 100, f"{name} to work", RECORDS_RESUME_S)
        yield client
    finally:
        client.close()
        if feeder is not None:
            feeder.close()


def kill_once(
    cluster: Cluster, topic: str, client: Client, rest_s: float, *, by_supervisor: bool
) -> Outcome:
    """Kill the leader and wait until it is back and in sync. Returns what the client saw."""
    victim = leader(cluster, topic, asked=random.randrange(cluster.size))
    survivor = (victim + 1) % cluster.size
    was_controller = controller(cluster) == victim
    pid = cluster.pid(victim)
    assert pid is not None
    began = time.monotonic()
    if by_supervisor:
        cluster.kill(victim, stay_down=True)
    else:
        os.kill(pid, signal.SIGKILL)

    def is_elected() -> bool:
        state = partition_state(cluster, topic, 0, survivor)
        return state is not None and state.leader_id not in (victim, -1)

    wait_until(is_elected, "an election", 30.0)
    election_ms = (time.monotonic() - began) * 1e3
    time.sleep(max(0.0, began + DOWN_S - time.monotonic()))
    after = time.monotonic()
    wait_until(lambda: client.times[-1] > after, "records to flow", RECORDS_RESUME_S)
    if cluster.pid(victim) is None:
        socket = DataDir(cluster.data_dir).control_socket
        ask_supervisor(socket, {"command": "restart", "id": victim})
    wait_for_isr(cluster, topic, cluster.size)
    time.sleep(rest_s + random.random())  # so that kills do not coincide with clients' timers
    return Outcome(client.pause_ms(began - 0.05), election_ms, was_controller)


def series(
    name: str, role: str, kills: int, rest_s: float, say: Callable[[str], None]
) -> list[str]:
    """One row of the table."""
    with tempfile.TemporaryDirectory(prefix="milena-failover-") as directory:
        # One that leads again within seconds would be killed every time.
        stay = {"auto.leader.rebalance.enable": "false"}
        cluster = Cluster(Path(directory) / "data", overrides=stay)
        with cluster:
            topic = create_topic(cluster)
            with running(name, role, cluster, topic) as client:
                time.sleep(2)
                outcomes = []
                for number in range(kills):
                    one = kill_once(cluster, topic, client, rest_s, by_supervisor=number % 2 == 0)
                    outcomes.append(one)
                    say(
                        f"{name} {role} {number + 1}/{kills}: {one.pause_ms:.0f} ms,"
                        f" elected within {one.election_ms:.0f} ms"
                        f"{' (the controller died, too)' if one.was_controller else ''}"
                    )
            errors = len(client.errors)
    pauses = sorted(one.pause_ms for one in outcomes)
    elections = sorted(one.election_ms for one in outcomes)
    figures = [quantile(pauses, 0.5), quantile(pauses, 0.99), pauses[-1], quantile(elections, 0.5)]
    return [name, role, str(kills), *(f"{one:.0f}" for one in figures), str(errors)]


def quantile(ordered: Sequence[float], part: float) -> float:
    """The quantile of sorted values by nearest rank; `part` is from 0 to 1."""
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)]


def say(text: str) -> None:
    """Print progress on stderr, apart from the table."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run every series and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="per client and role")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma separated")
    parser.add_argument("--roles", default=",".join(ROLES), help="comma separated")
    parser.add_argument(
        "--rest", type=float, default=4.0, help="seconds of peace before each kill (see the docs)"
    )
    options = parser.parse_args()
    heads = ["client", "role", "kills", "p50 ms", "p99 ms", "max ms", "elected ms", "errors"]
    rows = []
    for name in options.clients.split(","):
        for role in options.roles.split(","):
            try:
                row = series(name, role, options.kills, options.rest, say)
            except LookupError as problem:
                row = [name, role, str(problem)]
            except AssertionError as problem:
                row = [name, role, f"stopped working: {str(problem).splitlines()[0][:80]}"]
            rows.append(row)
    print("| " + " | ".join(heads) + " |")
    print("| " + " | ".join("---" for _ in heads) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
