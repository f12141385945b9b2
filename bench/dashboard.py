"""What the dashboard costs: its processor time while somebody looks, and while nobody does.

    PYTHONPATH=. .venv/bin/python bench/dashboard.py [--clients N] [--brokers N] [--seconds S]

Stats files of brokers that do not exist are written as brokers write them, four times a second by
this process, each client with a row for produce, fetch and request quotas on every broker. The
dashboard runs as a process of its own, as under the supervisor; its processor time is the kernel's.
At last a browser opens the page, where there is Chromium.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import psutil

from bench.page_times import in_a_browser
from cluster.dashboard.process import run_dashboard
from cluster.datadir.paths import DataDir
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import QuotaRow
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.runtime.held_socket import HeldSocket
from tests.support.waiting import wait_until

QUOTAS = ("produce", "fetch", "request")
TICK_S = 0.25


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--active", type=float, default=1.0, help="share that uses its quotas")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--pages", type=int, default=10, help="that look at once")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row of the table")
    parser.add_argument("--serve", nargs=2, metavar=("DIR", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve[0]), int(options.serve[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        files = DataDir(Path(folder))
        files.run.mkdir()
        written = [stats_of(files, broker, options.clients) for broker in range(options.brokers)]
        ending = threading.Event()
        active = round(options.clients * options.active)
        writer = threading.Thread(target=keep_writing, args=(written, active, ending))
        writer.start()
        try:
            measure(files, options)
        finally:
            ending.set()
            writer.join()


def serve(place: Path, port: int) -> None:
    """The dashboard's process."""
    held = HeldSocket("127.0.0.1", port)
    run_dashboard(
        DataDir(place),
        "127.0.0.1",
        held,
        lambda: None,
        has_password=False,
        may_change=False,
        is_guarded=False,
    )


def stats_of(files: DataDir, broker: int, clients: int) -> MmapStats:
    """A broker's file with all rows in use."""
    path = files.run / f"broker-{broker}.stats"
    stats = MmapStats.create(
        path, f"broker-{broker}", 0, rows=max(2048, clients * len(QUOTAS)), groups_bytes=0
    )
    write_rows(stats, clients, 0)
    return stats


def write_rows(stats: MmapStats, clients: int, second: int) -> None:
    """The rows of so many clients, which change every second."""
    samples = tuple((1_000 * (second + each), 1e6) for each in range(11))
    for number in range(clients * len(QUOTAS)):
        client, kind = divmod(number, len(QUOTAS))
        row = QuotaRow(
            quota=QUOTAS[kind],
            user="ANONYMOUS",
            client_id=f"client-{client}",
            rule="client",
            limit=2e6,
            limits=(None, None, None, None, None, None, 2e6, None),
            rate=random.uniform(0.8e6, 1.2e6),
            window_seconds=10.5,
            requests=client + second,
            active_ms=time.monotonic_ns() // 10**6,
            written_wall_ms=time.time_ns() // 10**6,
            software="confluent-kafka-python 2.16.1-rdkafka-2.16.0",
            samples=samples,
        )
        stats.write_row(number, row)


def keep_writing(written: list[MmapStats], active: int, ending: threading.Event) -> None:
    """Write what live brokers write: the time, and once a second the rows of active clients."""
    tick = 0
    while not ending.wait(TICK_S):
        tick += 1
        now_ns = time.monotonic_ns()
        for stats in written:
            stats.write_time(WallMs(time.time_ns() // 10**6), MonotonicMs(now_ns // 10**6))
            if tick % 4 == 0:
                write_rows(stats, active, tick)


def measure(files: DataDir, options: argparse.Namespace) -> None:
    """Start the dashboard, and look at it with more and more pages."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, "--serve", str(files.path), str(port)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())}) as child:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url)
            print(
                f"{options.clients} clients ({options.active:.0%} active), {len(QUOTAS)} quotas,"
                f" {options.brokers} brokers"
            )
            print(f"{'PAGES':>6} {'% OF A CORE':>12} {'KB/S TO EACH':>13} {'RSS MB':>7}")
            for pages in (0, 1, options.pages):
                print(row(psutil.Process(child.pid), url, pages, options.seconds), flush=True)
            print(in_a_browser(f"{url}/#clients", "main [data-client]"))
        finally:
            child.send_signal(signal.SIGTERM)


def wait_for(url: str) -> None:
    """Until it answers."""

    def answers() -> bool:
        try:
            httpx.get(url)
        except httpx.TransportError:
            return False
        return True

    wait_until(answers, "the dashboard to answer")


def row(process: psutil.Process, url: str, pages: int, seconds: float) -> str:
    """One line of the table."""
    ending = threading.Event()
    received = [0] * pages
    threads = [
        threading.Thread(target=look, args=(url, received, number, ending))
        for number in range(pages)
    ]
    for thread in threads:
        thread.start()
    time.sleep(2)  # past the first readings
    before, began, before_bytes = process.cpu_times(), time.perf_counter(), sum(received)
    time.sleep(seconds)
    after, elapsed_s = process.cpu_times(), time.perf_counter() - began
    got = sum(received) - before_bytes
    ending.set()
    for thread in threads:
        thread.join()
    share = (after.user + after.system - before.user - before.system) / elapsed_s
    to_each = got / elapsed_s / 1000 / pages if pages else 0.0
    return (
        f"{pages:>6} {100 * share:>12.1f} {to_each:>13.0f} {process.memory_info().rss / 1e6:>7.0f}"
    )


def look(url: str, received: list[int], number: int, ending: threading.Event) -> None:
    """One page that is open."""
    with httpx.stream("GET", f"{url}/api/live", timeout=30) as answer:
        for part in answer.iter_raw():
            received[number] += len(part)
            if ending.is_set():
                return


if __name__ == "__main__":
    main()
