"""Counts the system calls of brokers per request, by name: `python -m bench.system_calls`.

Three brokers serve a client that waits for each answer, while strace(1) counts the calls of all
their threads. What brokers call without requests is counted first, and subtracted. A replicated
round is a produce request with acks=all and two followers: the calls of its leader, and those of
all three brokers.

Where strace is missing, and for the test that keeps the counts below `CEILINGS`, a broker's parts
run in this process, and the interpreter counts the calls that Python makes for them.
"""

import argparse
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

from bench.broker import produce_frame
from bench.calls import asking
from bench.rounds import ROUNDS, Profile, replicated_partition
from cluster.runtime.clock import SystemClock
from tests.support.kafka_wire import WireClient, fetch_request, frame_of
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader

IDLE_S: Final = 3.0
FETCHED_BYTES: Final = 10_000
"""More than about 64 KB would be sent by sendfile, in several calls."""
PARKED_MS: Final = 30_000
UNTIL_PARKED_S: Final = 0.002
"""A fetch in the same turn as the produce that answers it would not be parked."""
SHOWN_FROM: Final = 0.05
"""Fewer calls per request are not printed."""

PRODUCE: Final = "produce, acks=1"
FETCH: Final = "fetch"
PARKED: Final = "parked fetch, two produces"
CEILINGS: Final = {PRODUCE: 3, FETCH: 3, PARKED: 9}
"""The highest accepted numbers of Python's system calls on one broker, besides `TIMED`: a wait, a
receive and a send for each request, whether it is parked or not."""
ROUND_CEILINGS: Final = {"leader": 8, "follower": 4}
"""The same for a replicated round over local connections. The leader waits twice, receives three
messages and sends three."""
MARGIN: Final = 0.2
"""Besides the calls of requests: what brokers do now and then, such as checking an open file."""
TIMED: Final = "thread_time_ns"
"""The CPU clock is read once a millisecond, whatever there is to do."""
_NOT_CALLED: Final = frozenset({"fileno", "fspath", "gettimeout"})
"""Functions of `posix` and of sockets that ask nothing of the system."""


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description="System calls per request, by name.")
    parser.add_argument("--requests", type=int, default=1_000)
    requests = parser.parse_args().requests
    if shutil.which("strace") is None:
        print("strace is not installed: these are Python's own calls, on one broker\n")
        columns = {}
        for kind in CEILINGS:
            with tempfile.TemporaryDirectory() as folder:
                calls = count_in_process(Path(folder), kind, requests)
            columns[kind] = Counter({name: count / requests for name, count in calls.items()})
    else:
        with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
            columns = measure(cluster, requests)
    show(columns)


def show(columns: dict[str, Counter[str]]) -> None:
    """Print the calls per request, most frequent first."""
    names = Counter[str]()
    for column in columns.values():
        names.update(column)
    print(f"| calls | {' | '.join(columns)} |")
    print(f"| --- |{' --- |' * len(columns)}")
    totals = (f"{column.total():.1f}" for column in columns.values())
    print(f"| all | {' | '.join(totals)} |")
    for name, _ in names.most_common():
        cells = [column[name] for column in columns.values()]
        if max(cells) >= SHOWN_FROM:
            texts = (f"{cell:.1f}" if cell >= SHOWN_FROM else "" for cell in cells)
            print(f"| {name} | {' | '.join(texts)} |")


def count_in_process(directory: Path, kind: str, requests: int) -> Counter[str]:
    """System calls that Python functions make for so many requests of one kind, by name."""
    calls = Counter[str]()
    on_event = counting(calls)
    fetch = frame_of(fetch_request("t", 0, max_bytes=FETCHED_BYTES), 1)
    with (
        asking(directory, "produce") as (stage, client, produce),
        socket.create_connection(client.getpeername()) as consumer,
    ):
        stage.loop.run_once(0)

        def ask_here(connection: socket.socket, frame: bytes, *, is_parked: bool = False) -> bytes:
            connection.sendall(frame)
            sys.setprofile(on_event)
            stage.loop.run_once(1_000)
            sys.setprofile(None)
            return b"" if is_parked else connection.recv(1 << 20)[4:]

        def end_a_parked_fetch() -> None:
            wanted = base_offset(ask_here(client, produce), "t") + 1
            parked = frame_of(fetch_request("t", wanted, max_wait_ms=PARKED_MS), 1)
            ask_here(consumer, parked, is_parked=True)
            ask_here(client, produce)
            assert consumer.recv(1 << 20)

        act = {
            PRODUCE: lambda: ask_here(client, produce),
            FETCH: lambda: ask_here(client, fetch),
            PARKED: end_a_parked_fetch,
        }[kind]
        act()
        calls.clear()
        for _ in range(requests):
            act()
    return calls


def count_rounds_in_process(directory: Path) -> tuple[Counter[str], Counter[str]]:
    """System calls of `ROUNDS` replicated rounds: those of the leader, and of one follower."""
    calls = [Counter[str]() for _ in range(3)]
    profiles = [counting(counts) for counts in calls]
    with replicated_partition(directory, is_local=True, clock=SystemClock()) as replicated:
        for _ in range(ROUNDS):
            replicated.run_round(profiles)
    return calls[0], calls[1]


def counting(calls: Counter[str]) -> Profile:
    """A profile function that counts system calls by name."""

    def on_event(_frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and is_system_call(function):
            calls[function.__name__] += 1

    return on_event


def is_system_call(function: Any) -> bool:
    """Whether calling a function that is written in C enters the kernel."""
    if function.__name__ in _NOT_CALLED:
        return False
    owner = function.__self__
    if isinstance(owner, ModuleType):
        return owner.__name__ in ("posix", "fcntl") or function is time.thread_time_ns
    return type(owner).__module__ in ("select", "socket", "_socket")


def measure(cluster: Cluster, requests: int) -> dict[str, Counter[str]]:
    """Calls per request by name, for each kind of request."""
    single = create_topic(cluster, replication_factor=1)
    replicated = create_topic(cluster)
    columns: dict[str, Counter[str]] = {}
    produce = produce_frame(single, 1)
    fetch = frame_of(fetch_request(single, 0, max_bytes=FETCHED_BYTES), 1)
    alone, lead = leader(cluster, single), leader(cluster, replicated)
    address = cluster.addresses[alone]
    with WireClient(address) as client, WireClient(address) as consumer:

        def end_a_parked_fetch() -> None:
            wanted = base_offset(ask(client, produce), single) + 1
            consumer.send_bytes(frame_of(fetch_request(single, wanted, max_wait_ms=PARKED_MS), 1))
            time.sleep(UNTIL_PARKED_S)
            ask(client, produce)
            consumer.receive_frame()

        for title, act in (
            (PRODUCE, lambda: ask(client, produce)),
            (FETCH, lambda: ask(client, fetch)),
            (PARKED, end_a_parked_fetch),
        ):
            columns[title] = per_request(cluster, [alone], act, requests)[alone]
    with WireClient(cluster.addresses[lead]) as client:
        frame = produce_frame(replicated, -1)
        calls = per_request(cluster, range(3), lambda: ask(client, frame), requests)
    columns["produce, acks=all: its leader"] = calls[lead]
    columns["all three brokers"] = sum(calls.values(), Counter())
    return columns


def ask(client: WireClient, frame: bytes) -> bytes:
    """Send a request and receive its answer."""
    client.send_bytes(frame)
    return client.receive_frame()


def base_offset(answer: bytes, topic: str) -> int:
    """The offset of the record in an answer to `produce_frame`."""
    error, offset = struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    if error:
        sys.exit(f"produce was answered with error {error}")
    return int(offset)


def per_request(
    cluster: Cluster, brokers: Iterable[int], act: Callable[[], object], requests: int
) -> dict[int, Counter[str]]:
    """System calls per `act`, by broker and name."""
    pids = {broker: cluster.pid(broker) or 0 for broker in brokers}
    for _ in range(requests):
        act()
    with counted(pids) as idle_calls:
        time.sleep(IDLE_S)
    with counted(pids) as calls:
        began = time.monotonic()
        for _ in range(requests):
            act()
        share = (time.monotonic() - began) / IDLE_S
    return {
        broker: Counter(
            {
                name: max(0, count - share * idle_calls[broker][name]) / requests
                for name, count in calls[broker].items()
            }
        )
        for broker in pids
    }


@contextmanager
def counted(pids: dict[int, int]) -> Iterator[dict[int, Counter[str]]]:
    """System calls of processes by name, complete when the context ends."""
    calls: dict[int, Counter[str]] = {}
    with ExitStack() as tracing, tempfile.TemporaryDirectory() as folder:
        reports = {broker: Path(folder) / str(broker) for broker in pids}
        for broker, pid in pids.items():
            tracing.enter_context(traced(pid, reports[broker]))
        yield calls
        tracing.close()
        calls.update({broker: parsed(path.read_text()) for broker, path in reports.items()})


@contextmanager
def traced(pid: int, report: Path) -> Iterator[None]:
    """Run strace for all threads of a process; its report is complete afterwards."""
    command = ["strace", "-f", "-c", "-U", "calls,name", "-o", str(report), "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        first_line = strace.stderr.readline()
        if "attached" not in first_line:
            sys.exit(f"strace cannot trace the brokers: {first_line.strip()}")
        yield
        strace.send_signal(signal.SIGINT)
        strace.communicate()


def parsed(report: str) -> Counter[str]:
    """The calls in a report of `strace -c -U calls,name`."""
    words = (line.split() for line in report.splitlines())
    return Counter(
        {row[1]: int(row[0]) for row in words if len(row) == 2 and row[0].isdigit()}
    ) - Counter({"total": 1 << 62})


if __name__ == "__main__":
    main()
