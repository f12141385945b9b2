"""Counts the system calls of brokers per request, by name: `python -m bench.system_calls`.

Three brokers serve a client that waits for each answer, while strace(1) counts the calls of all
their threads. What brokers call without requests is counted first, and subtracted. A replicated
round is a produce request with acks=all and two followers: the calls of its leader, and those of
all three brokers.
"""

import argparse
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.broker import produce_frame
from tests.support.kafka_wire import WireClient, fetch_request, frame_of
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader

IDLE_S: Final = 3.0
PARKED_MS: Final = 30_000
UNTIL_PARKED_S: Final = 0.002
"""A fetch in the same turn as the produce that answers it would not be parked."""
SHOWN_FROM: Final = 0.05
"""Fewer calls per request are not printed."""


def main() -> None:
    """Print a Markdown table, or in one line why there is none."""
    parser = argparse.ArgumentParser(description="System calls per request, by name.")
    parser.add_argument("--requests", type=int, default=1_000)
    requests = parser.parse_args().requests
    if shutil.which("strace") is None:
        sys.exit("system calls are counted by strace, which is not installed")
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        columns = measure(cluster, requests)
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


def measure(cluster: Cluster, requests: int) -> dict[str, Counter[str]]:
    """Calls per request by name, for each kind of request."""
    single = create_topic(cluster, replication_factor=1)
    replicated = create_topic(cluster)
    columns: dict[str, Counter[str]] = {}
    produce = produce_frame(single, 1)
    fetch = frame_of(fetch_request(single, 0, max_bytes=10_000), 1)
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
            ("produce, acks=1", lambda: ask(client, produce)),
            ("fetch", lambda: ask(client, fetch)),
            ("parked fetch, two produces", end_a_parked_fetch),
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
