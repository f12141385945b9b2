"""Counts the Python calls of one replicated round, and measures the CPU time of its brokers.

    PYTHONPATH=. .venv/bin/python bench/rounds.py [--list] [--zmq]

A round is an acks=all produce request of one record of 100 bytes to a partition of three replicas,
until it is answered. The three brokers run in this process, each on its own loop with real sockets
between them; a broker's turns count only if something is ready. So the count depends neither on
the machine nor on its load; the microseconds do. A test keeps the counts below `CEILINGS`.
"""

import argparse
import select
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.broker import produce_frame  # noqa: E402 - after the path is set
from bench.calls import options  # noqa: E402
from cluster.brokers.network.socket_server import SocketServer  # noqa: E402
from cluster.model.cluster import BrokerRegistration  # noqa: E402
from cluster.model.ids import BrokerId, TopicPartition  # noqa: E402
from cluster.runtime.acceptor import Listener  # noqa: E402
from cluster.runtime.clock import SystemClock  # noqa: E402
from cluster.runtime.compiled import build_name  # noqa: E402
from cluster.runtime.local_link import UnixSockets  # noqa: E402
from tests.support.cluster_states import a_broker, a_partition, a_topic  # noqa: E402
from tests.support.fake_clock import FakeClock  # noqa: E402
from tests.support.fake_sockets import NoLocalSockets  # noqa: E402
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage  # noqa: E402
from tests.support.link_keys import Acquaintance  # noqa: E402

ROUNDS: Final = 100
CEILINGS: Final = {"leader": 125.0, "follower": 43.0}
"""The highest accepted number of Python calls per round; raise it only for a reason."""
_ALL_ACKS: Final = -1
_DEADLINE_S: Final = 30.0
_SETTLED_AFTER_MS: Final = 500

Profile = Callable[[FrameType, str, Any], None]


class ReplicatedPartition:
    """Three brokers that replicate one partition, and a client of its leader."""

    def __init__(self, directory: Path, *, is_local: bool, clock: FakeClock | SystemClock) -> None:
        """With a fake clock no timer fires once the followers have connected."""
        self._clock = clock
        brokers = Acquaintance()
        self._contexts = [brokers.context() for _ in range(3)]
        local = UnixSockets() if is_local else NoLocalSockets()
        numbers = (BROKER, OTHER, THIRD)
        self.stages = [
            HandlerStage(
                directory / str(number),
                number=number,
                clock=clock,
                sockets=context,
                local_sockets=local,
            )
            for number, context in zip(numbers, self._contexts, strict=True)
        ]
        self.busy_ns = [0, 0, 0]
        self._take_roles(numbers)
        leader = self.stages[0]
        self._server = SocketServer(leader.loop, options())
        port = self._server.bind(Listener("PLAINTEXT", "127.0.0.1", 0))
        self._server.serve(leader.pipeline.on_frame)
        self._client = socket.create_connection(("127.0.0.1", port))
        self._client.setblocking(False)
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = produce_frame("t", _ALL_ACKS)

    def _take_roles(self, numbers: tuple[BrokerId, ...]) -> None:
        topic = a_topic("t", a_partition(numbers))
        registered: dict[BrokerId, BrokerRegistration] = {
            number: replace(
                a_broker(number), replication_endpoint=stage.core.replication.link.endpoint
            )
            for number, stage in zip(numbers, self.stages, strict=True)
        }
        for stage in self.stages:
            stage.update()
            now_ms = stage.loop.now_ms
            stage.roles.apply_state(TopicPartition("t", 0), topic, registered, now_ms)

    def run_round(self, profiles: list[Profile] | None = None) -> None:
        """Send one request, and run the brokers until it is answered."""
        self._client.send(self._frame)
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            for number, stage in enumerate(self.stages):
                if _has_work(stage):
                    sys.setprofile(None if profiles is None else profiles[number])
                    began_ns = time.thread_time_ns()
                    stage.loop.run_once(max_wait_ms=0)
                    self.busy_ns[number] += time.thread_time_ns() - began_ns
                    sys.setprofile(None)
            try:
                answer = self._client.recv(4096)
            except BlockingIOError:
                continue
            if _error_in(answer):
                raise ValueError(f"produce was answered with error {_error_in(answer)}")
            return
        raise TimeoutError(f"no answer for {_DEADLINE_S:g} s")

    def settle(self) -> None:
        """Run the brokers for half a second of their clock, so that followers connect."""
        end_ms = self._clock.monotonic_ms() + _SETTLED_AFTER_MS
        while self._clock.monotonic_ms() < end_ms:
            for stage in self.stages:
                stage.loop.run_once(max_wait_ms=5)
            if isinstance(self._clock, FakeClock):
                self._clock.pass_time(10)

    def close(self) -> None:
        self._client.close()
        self._server.close()
        for stage in self.stages:
            stage.core.replication.link.close()
        for context in self._contexts:
            context.close()
        for stage in self.stages:
            stage.__exit__()


def _error_in(answer: bytes) -> int:
    """The error code of the only partition. Raises struct.error if the leader has disconnected."""
    return int(struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len("t") + 4 + 4)[0])


def _has_work(stage: HandlerStage) -> bool:
    """Whether a descriptor is ready or a call is due; timers run along with those."""
    loop = stage.loop
    poller: Any = loop._poller  # noqa: SLF001 - readable if a watched one is
    ready = select.poll()  # `select.select` takes no descriptor above 1023
    ready.register(poller, select.POLLIN)
    return loop.has_calls or bool(ready.poll(0))


@contextmanager
def replicated_partition(
    directory: Path, *, is_local: bool, clock: FakeClock | SystemClock
) -> Iterator[ReplicatedPartition]:
    """A replicated partition that has served some hundred rounds."""
    made = ReplicatedPartition(directory, is_local=is_local, clock=clock)
    try:
        made.settle()
        for _ in range(5 * ROUNDS):
            made.run_round()
        yield made
    finally:
        made.close()


def count_calls(directory: Path, *, is_local: bool) -> tuple[Counter[str], Counter[str]]:
    """Calls by function in `ROUNDS` rounds: those of the leader, and those of one follower."""
    calls: list[Counter[str]] = [Counter() for _ in range(3)]

    def counting(counts: Counter[str]) -> Profile:
        def on_event(python_frame: FrameType, event: str, _argument: Any) -> None:
            if event == "call" and python_frame.f_globals["__name__"] != FakeClock.__module__:
                code = python_frame.f_code
                counts[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += 1

        return on_event

    clock = FakeClock(wall_ms=time.time_ns() // 1_000_000)  # the record's time must be possible
    with replicated_partition(directory, is_local=is_local, clock=clock) as replicated:
        profiles = [counting(counts) for counts in calls]
        for _ in range(ROUNDS):
            replicated.run_round(profiles)
    return calls[0], calls[1]


def measure_us(directory: Path, rounds: int, *, is_local: bool) -> list[float]:
    """Microseconds of CPU time per round of each broker's thread."""
    with replicated_partition(directory, is_local=is_local, clock=SystemClock()) as replicated:
        replicated.busy_ns = [0, 0, 0]
        for _ in range(rounds):
            replicated.run_round()
        return [busy_ns / rounds / 1_000 for busy_ns in replicated.busy_ns]


def main() -> None:
    """Print calls and microseconds per round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name every function")
    parser.add_argument("--zmq", action="store_true", help="without local connections")
    parser.add_argument("--rounds", type=int, default=3_000, help="rounds that are measured")
    chosen = parser.parse_args()
    is_local = not chosen.zmq
    with tempfile.TemporaryDirectory() as directory:
        counted = count_calls(Path(directory), is_local=is_local)
    for (role, ceiling), calls in zip(CEILINGS.items(), counted, strict=True):
        print(f"{role}: {calls.total() / ROUNDS:.1f} Python calls per round, {ceiling:.1f} allowed")
        if chosen.list:
            for name, count in calls.most_common():
                print(f"  {count / ROUNDS:6.2f}  {name}")
    with tempfile.TemporaryDirectory() as directory:
        leader, *followers = measure_us(Path(directory), chosen.rounds, is_local=is_local)
    shown = " + ".join(f"{us:.0f}" for us in followers)
    print(f"CPU per round, {build_name()}: leader {leader:.0f} us, followers {shown} us")


if __name__ == "__main__":
    main()
