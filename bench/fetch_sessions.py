"""What an idle fetch of many partitions costs with and without a session (KIP-227).

    PYTHONPATH=. .venv/bin/python bench/fetch_sessions.py [--counts 1,1000] [--version 17]

A raw client's requests come over a real socket into the broker's own parts, on one loop, one at a
time. Each waits 1 ms and ends without records. CPU is that of the broker's thread per request,
bytes are those of request and answer with their sizes.
"""

import argparse
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.calls import options  # noqa: E402 - after the path is set
from cluster.brokers.dispatch.table import HANDLERS  # noqa: E402
from cluster.brokers.metrics.counters import BrokerCounters  # noqa: E402
from cluster.brokers.network.socket_server import SocketServer  # noqa: E402
from cluster.metrics.mmap_stats import MmapStats  # noqa: E402
from cluster.runtime.acceptor import Listener  # noqa: E402
from cluster.runtime.clock import SystemClock  # noqa: E402
from cluster.runtime.compiled import build_name  # noqa: E402
from tests.support.cluster_states import a_partition, a_topic  # noqa: E402
from tests.support.handler_stage import BROKER, HandlerStage  # noqa: E402
from tests.support.kafka_wire import fetch_from, frame_of, wanted  # noqa: E402

ROUNDS: Final = 200
_SESSION_AT: Final = 15
"""Where an answer has the session id: after size, correlation id, tags, throttle time and error."""


class Cost(NamedTuple):
    """Per request."""

    cpu_us: float
    request_bytes: int
    answer_bytes: int


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", default="1,10,100,1000", help="partitions")
    parser.add_argument("--version", type=int, default=17, help="of Fetch, at least 13")
    asked = parser.parse_args()
    print(f"{build_name()}, Fetch v{asked.version}")
    print("| partitions | without: CPU, bytes | in a session: CPU, bytes | CPU | bytes |")
    print("| --- | --- | --- | --- | --- |")
    for count in map(int, asked.counts.split(",")):
        full, idle = measure(count, asked.version)
        cells = [f"{each.cpu_us:,.0f} us, {sum(each[1:]):,}" for each in (full, idle)]
        by_cpu, by_bytes = full.cpu_us / idle.cpu_us, sum(full[1:]) / sum(idle[1:])
        print(f"| {count:,} | {cells[0]} | {cells[1]} | 1/{by_cpu:.0f} | 1/{by_bytes:.0f} |")


def measure(count: int, version: int) -> tuple[Cost, Cost]:
    """An idle fetch of so many partitions, without a session and in one."""
    counters = BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])
    with (
        tempfile.TemporaryDirectory() as directory,
        HandlerStage(Path(directory), clock=SystemClock(), counters=counters) as stage,
    ):
        server = SocketServer(stage.loop, options())
        port = server.bind(Listener("PLAINTEXT", "127.0.0.1", 0))
        server.serve(stage.pipeline.on_frame)
        topic = a_topic("t", *[a_partition([BROKER])] * count)
        stage.update(topic)
        for _ in range(count):
            stage.turn()
        every = (topic.topic_id, [wanted(number) for number in range(count)])
        with socket.create_connection(("127.0.0.1", port)) as client:
            plain = frame_of(fetch_from(every, version=version, max_wait_ms=1), 1)
            full = [_exchange(stage, client, plain)[0] for _ in range(ROUNDS)]
            opening = fetch_from(every, version=version, session=(0, 0))
            _, answer = _exchange(stage, client, frame_of(opening, 1))
            session = int.from_bytes(answer[_SESSION_AT : _SESSION_AT + 4], "big")
            idle = []
            for epoch in range(1, ROUNDS + 2):
                asked = fetch_from(version=version, session=(session, epoch), max_wait_ms=1)
                idle.append(_exchange(stage, client, frame_of(asked, 1))[0])
        server.close()
        return min(full), min(idle[1:])


def _exchange(stage: HandlerStage, client: socket.socket, frame: bytes) -> tuple[Cost, bytes]:
    client.sendall(frame)
    client.setblocking(False)
    answer = b""
    busy_s = 0.0
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
        began = time.thread_time()
        stage.loop.run_once(max_wait_ms=10)
        busy_s += time.thread_time() - began
        try:
            answer += client.recv(1 << 20)
        except BlockingIOError:
            continue
    return Cost(busy_s * 1e6, len(frame), len(answer)), answer


if __name__ == "__main__":
    main()
