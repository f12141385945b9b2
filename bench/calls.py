"""Counts the Python calls of one produce and one fetch request: independent of machine load.

    PYTHONPATH=. .venv/bin/python bench/calls.py [--list] [--rates]

A client's requests come over a real socket into the broker's own parts, on one loop. Every function
written in Python that runs until the answers are sent is counted, the library's too; with --list
each is named. A test keeps the counts below `CEILINGS`. Compiled functions (docs/decisions/012) do
not show up in it. With --rates requests per second of the broker's thread are measured as well.
"""

import argparse
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.broker import produce_frame  # noqa: E402 - after the path is set
from cluster.brokers.dispatch.table import HANDLERS  # noqa: E402
from cluster.brokers.metrics.counters import BrokerCounters  # noqa: E402
from cluster.brokers.network.socket_server import NetworkOptions, SocketServer  # noqa: E402
from cluster.metrics.mmap_stats import MmapStats  # noqa: E402
from cluster.runtime.acceptor import Listener  # noqa: E402
from cluster.runtime.clock import SystemClock  # noqa: E402
from cluster.runtime.compiled import build_name  # noqa: E402
from tests.support.cluster_states import a_partition, a_topic  # noqa: E402
from tests.support.handler_stage import BROKER, HandlerStage  # noqa: E402
from tests.support.kafka_wire import fetch_request, frame_of  # noqa: E402

REQUESTS: Final = 100
ROUNDS: Final = 100
WARM_ROUNDS: Final = 60
CEILINGS: Final = {"produce": 24.0, "fetch": 29.0}
"""The highest accepted number of Python calls per request; raise it only for a reason."""


@contextmanager
def asking(directory: Path, kind: str) -> Iterator[tuple[HandlerStage, socket.socket, bytes]]:
    """A broker, a client's connection to it, and the frame of a `produce` or `fetch` request.

    Some such requests have been made before, so that caches are filled, and few of them timed.
    """
    counters = BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])
    with HandlerStage(directory, clock=SystemClock(), counters=counters) as stage:
        server = SocketServer(stage.loop, options())
        port = server.bind(Listener("PLAINTEXT", "127.0.0.1", 0))
        server.serve(stage.pipeline.on_frame)
        stage.update(a_topic("t", a_partition([BROKER])))
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(10)
            frame = produce_frame("t", 1)
            exchange(stage, client, frame, 5)
            if kind == "fetch":
                frame = fetch_frame()
            for _ in range(WARM_ROUNDS):
                exchange(stage, client, frame, REQUESTS)
            yield stage, client, frame
        server.close()


def count_calls(directory: Path, kind: str) -> Counter[str]:
    """Calls by function for `REQUESTS` requests, pipelined."""
    calls: Counter[str] = Counter()

    def on_event(python_frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            code = python_frame.f_code
            calls[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += 1

    with asking(directory, kind) as (stage, client, frame):
        exchange(stage, client, frame, REQUESTS, on_event)
    return calls


def best_rate(directory: Path, kind: str) -> float:
    """Requests per second of the broker's thread, the client's part left out; best of `ROUNDS`."""
    with asking(directory, kind) as (stage, client, frame):
        return REQUESTS / min(exchange(stage, client, frame, REQUESTS) for _ in range(ROUNDS))


def exchange(
    stage: HandlerStage, client: socket.socket, frame: bytes, count: int, profile: Any = None
) -> float:
    """Send `count` requests at once and receive the responses. Returns the broker's CPU seconds."""
    client.sendall(frame * count)
    answered = 0
    busy_seconds = 0.0
    buffered = b""
    while answered < count:
        sys.setprofile(profile)
        began = time.thread_time()
        stage.loop.run_once(max_wait_ms=10)
        busy_seconds += time.thread_time() - began
        sys.setprofile(None)
        client.setblocking(False)
        try:
            buffered += client.recv(1 << 20)
        except BlockingIOError:
            continue
        position = 0
        while len(buffered) >= position + 4:
            end = position + 4 + int.from_bytes(buffered[position : position + 4], "big")
            if end > len(buffered):
                break
            position = end
            answered += 1
        buffered = buffered[position:]
    return busy_seconds


def fetch_frame() -> bytes:
    """A Fetch of one partition from its beginning."""
    return frame_of(fetch_request("t", 0), 1)


def options() -> NetworkOptions:
    return NetworkOptions(1 << 20, 100, 100, -1, -1, -1, -1, 10)


def main() -> None:
    """Print calls per request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name every function")
    parser.add_argument("--rates", action="store_true", help="measure requests per second too")
    chosen = parser.parse_args()
    for kind, ceiling in CEILINGS.items():
        with tempfile.TemporaryDirectory() as directory:
            calls = count_calls(Path(directory), kind)
        per_request = calls.total() / REQUESTS
        print(f"{kind}: {per_request:.1f} Python calls per request, {ceiling:.1f} allowed")
        if chosen.list:
            for name, count in calls.most_common():
                print(f"  {count / REQUESTS:6.2f}  {name}")
        if chosen.rates:
            with tempfile.TemporaryDirectory() as directory:
                rate = best_rate(Path(directory), kind)
            print(f"{kind}: {rate:,.0f} requests per second of CPU, {build_name()}")


if __name__ == "__main__":
    main()
