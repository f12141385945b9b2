"""A flood of half-open TLS handshakes: the broker's memory, and how other clients are served.

    PYTHONPATH=. .venv/bin/python -m bench.tls_flood [--count 10000] [--kind hello] [--backlog 50]

One client that works beside it connects anew each time: to the plain listener for Metadata, and to
the TLS listener for a handshake. Kinds: see `tests.support.half_open`.
"""

import argparse
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.tls import System, cpu_seconds, milena
from tests.support.half_open import half_open
from tests.support.kafka_wire import WireClient, metadata_request
from tests.support.tls import client_context

MIB: Final = 1 << 20
PAUSE_S: Final = 0.05
OVER_WITHIN_S: Final = 60.0
SOME_OTHERS: Final = 10


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kind", choices=("hello", "half", "silent"), default="hello")
    parser.add_argument("--backlog", default="50")
    options = parser.parse_args()
    settings = {"socket.listen.backlog.size": options.backlog}
    with (
        tempfile.TemporaryDirectory(prefix="milena-bench-") as directory,
        milena(Path(directory), "EC", **settings) as system,
    ):
        flood(system, options.count, options.kind)


def flood(system: System, count: int, kind: str) -> None:
    """Half-open connections beside working ones, until all of them are gone."""
    context = client_context()

    def plain() -> None:
        with WireClient(("localhost", system.plain_port)) as client:
            client.call(metadata_request())

    def encrypted() -> None:
        with (
            socket.create_connection(("localhost", system.tls_port), 30) as connection,
            context.wrap_socket(connection, server_hostname="localhost"),
        ):
            pass

    seconds: dict[str, list[float]] = {"plain": [], "TLS": []}
    is_over = threading.Event()

    def repeat(name: str, work: Callable[[], None]) -> None:
        while not is_over.wait(PAUSE_S):
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)

    for work in (plain, encrypted):
        work()
    process = system.process
    descriptors, before = process.num_fds(), process.memory_full_info().uss
    most, spent, began = 0, cpu_seconds(process), time.perf_counter()
    threads = [
        threading.Thread(target=repeat, args=each)
        for each in (("plain", plain), ("TLS", encrypted))
    ]
    with half_open(("127.0.0.1", system.tls_port), count, kind) as attack:
        assert attack.stdout is not None
        lines: list[str] = []
        reader = threading.Thread(target=lambda line=attack.stdout.readline: lines.append(line()))
        for thread in (*threads, reader):
            thread.start()
        while not lines or process.num_fds() - descriptors > SOME_OTHERS:
            most = max(most, process.memory_full_info().uss - before)
            if time.perf_counter() - began > OVER_WITHIN_S:
                raise SystemExit("the broker keeps half-open connections")
            time.sleep(PAUSE_S)
        over_s = time.perf_counter() - began
        is_over.set()
        for thread in threads:
            thread.join()
    print(
        f"{count} {kind}: begun within {lines[0].strip()} s, all gone after {over_s:.0f} s,"
        f" {cpu_seconds(process) - spent:.1f} s of the broker's CPU,"
        f" {most / MIB:.0f} MiB at the most"
    )
    for name, each in seconds.items():
        each.sort()
        print(
            f"{name}: {len(each)} clients, p50 {each[len(each) // 2]:.3f} s, worst {each[-1]:.3f}"
        )


if __name__ == "__main__":
    main()
