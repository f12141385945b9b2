"""Counts the Python calls of a transaction in a broker, and measures their CPU time.

    PYTHONPATH=. .venv/bin/python bench/transaction_calls.py [--list] [--partitions N] [--profile]

A transaction is a Produce 12 with a record for each partition and an EndTxn 5, of a producer that
begins the next one at once. The broker leads all partitions and coordinates the transaction; it has
no followers. So the count depends neither on the machine nor on its load; the microseconds do. A
test keeps the counts below `CEILINGS`.
"""

import argparse
import cProfile
import pstats
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.calls import options  # noqa: E402 - after the path is set
from bench.raw_transactions import (  # noqa: E402
    TransactionalProducer,
    produce_error,
    read_answer,
)
from cluster.brokers.dispatch.table import HANDLERS  # noqa: E402
from cluster.brokers.metrics.counters import BrokerCounters  # noqa: E402
from cluster.brokers.network.socket_server import SocketServer  # noqa: E402
from cluster.metrics.mmap_stats import MmapStats  # noqa: E402
from cluster.model.error_codes import ErrorCode  # noqa: E402
from cluster.model.topics import TRANSACTION_STATE_TOPIC  # noqa: E402
from cluster.protocol.api import ApiKey  # noqa: E402
from cluster.runtime.acceptor import Listener  # noqa: E402
from cluster.runtime.clock import SystemClock  # noqa: E402
from cluster.runtime.compiled import build_name  # noqa: E402
from tests.support.cluster_states import a_partition, a_topic  # noqa: E402
from tests.support.fake_clock import FakeClock  # noqa: E402
from tests.support.handler_stage import BROKER, HandlerStage  # noqa: E402

TRANSACTIONS: Final = 50
WARM_TRANSACTIONS: Final = 50
CEILINGS: Final = {1: 620.0, 10: 1490.0}
"""The highest accepted number of Python calls, by partitions; raise it only for a reason."""
_UNCOUNTED: Final = (__file__, FakeClock.pass_time.__code__.co_filename)
_TOPIC: Final = "t"
_SETTINGS: Final = {"transaction.state.log.min.isr": "1"}
_DEADLINE_S: Final = 30.0

Turn = Callable[[], None]


class TransactingBroker:
    """A broker, and a producer that is connected to it."""

    def __init__(
        self,
        stage: HandlerStage,
        client: socket.socket,
        partitions: int,
        before_turn: Callable[[], None] | None,
    ) -> None:
        self._stage = stage
        self._before_turn = before_turn
        self._client = client
        self._partitions = range(partitions)
        self._producer = TransactionalProducer("bench")
        self.busy_ns = 0

    def begin(self) -> None:
        """Get a producer id, once the coordinator is loaded."""
        coordinator = self._stage.core.transactions.coordinator
        self._run(lambda: bool(coordinator.all_loaded()))
        self._client.sendall(self._producer.init_frame())
        self._run(lambda: bool(self._stage.producer_id_blocks))
        [(on_block, _)] = self._stage.producer_id_blocks
        on_block(range(1_000, 2_000))
        self._producer.take(read_answer(ApiKey.INIT_PRODUCER_ID, self._answer(self._turn)))

    def transact(self, turn: Turn | None = None) -> None:
        """One transaction, in turns of the broker that are run by `turn`."""
        turn = turn or self._turn
        self._client.sendall(self._producer.produce_frame(_TOPIC, self._partitions, [b"x" * 100]))
        error = produce_error(self._answer(turn), _TOPIC)
        if error is not ErrorCode.none:
            raise ValueError(f"Produce was answered with {error.name}")
        self._client.sendall(self._producer.end_frame(commits=True))
        answer = read_answer(ApiKey.END_TXN, self._answer(turn))
        if answer.error_code is not ErrorCode.none:
            raise ValueError(f"EndTxn was answered with {answer.error_code.name}")
        self._producer.take(answer)

    def _turn(self) -> None:
        began_ns = time.thread_time_ns()
        self.run_once()
        self.busy_ns += time.thread_time_ns() - began_ns

    def run_once(self) -> None:
        """One turn of the broker."""
        if self._before_turn is not None:
            self._before_turn()
        self._stage.loop.run_once(max_wait_ms=10)

    def _answer(self, turn: Turn) -> bytes:
        """The next one behind its correlation id."""
        data = b""
        deadline = time.monotonic() + _DEADLINE_S
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer for {_DEADLINE_S:g} s")
            turn()
            try:
                data += self._client.recv(1 << 20)
            except BlockingIOError:
                continue
        return data[8:]

    def _run(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not is_done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited for {_DEADLINE_S:g} s")
            self._turn()


@contextmanager
def transacting(
    directory: Path, partitions: int, clock: FakeClock | None = None
) -> Iterator[TransactingBroker]:
    """A broker that has run some transactions of so many partitions.

    With `clock` each turn takes a millisecond: on a slow machine more timers are due, and markers
    are built again because the time has changed.
    """
    counters = BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])
    with HandlerStage(
        directory, _SETTINGS, clock=clock or SystemClock(), counters=counters
    ) as stage:
        server = SocketServer(stage.loop, options())
        port = server.bind(Listener("PLAINTEXT", "127.0.0.1", 0))
        server.serve(stage.pipeline.on_frame)
        stage.update(
            a_topic(_TOPIC, *[a_partition([BROKER])] * partitions),
            a_topic(TRANSACTION_STATE_TOPIC, a_partition([BROKER])),
        )
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setblocking(False)
            before_turn = None if clock is None else partial(clock.pass_time, 1)
            broker = TransactingBroker(stage, client, partitions, before_turn)
            broker.begin()
            for _ in range(WARM_TRANSACTIONS):
                broker.transact()
            yield broker
        server.close()


def count_calls(directory: Path, partitions: int) -> Counter[str]:
    """Calls by function for `TRANSACTIONS` transactions."""
    calls: Counter[str] = Counter()

    def on_event(python_frame: FrameType, event: str, _argument: Any) -> None:
        code = python_frame.f_code
        if event == "call" and code.co_filename not in _UNCOUNTED:
            calls[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += 1

    with transacting(
        directory, partitions, FakeClock(wall_ms=time.time_ns() // 1_000_000)
    ) as broker:

        def counted_turn() -> None:
            sys.setprofile(on_event)
            broker.run_once()
            sys.setprofile(None)

        for _ in range(TRANSACTIONS):
            broker.transact(counted_turn)
    return calls


def measure_us(directory: Path, partitions: int, transactions: int) -> float:
    """Microseconds of CPU time of the broker's thread per transaction."""
    with transacting(directory, partitions) as broker:
        broker.busy_ns = 0
        for _ in range(transactions):
            broker.transact()
        return broker.busy_ns / transactions / 1_000


def print_profile(directory: Path, partitions: int, transactions: int) -> None:
    """Where the time goes, by cProfile."""
    with transacting(directory, partitions) as broker:
        profile = cProfile.Profile()

        def profiled_turn() -> None:
            profile.enable()
            broker.run_once()
            profile.disable()

        for _ in range(transactions):
            broker.transact(profiled_turn)
        pstats.Stats(profile).sort_stats("tottime").print_stats(50)


def main() -> None:
    """Print calls and microseconds per transaction."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name every function")
    parser.add_argument("--profile", action="store_true", help="print a profile of each, too")
    parser.add_argument("--partitions", type=int, nargs="+", default=list(CEILINGS))
    parser.add_argument("--records", type=int, default=2_000, help="that are measured")
    chosen = parser.parse_args()
    for partitions in chosen.partitions:
        transactions = max(1, chosen.records // partitions)
        with tempfile.TemporaryDirectory() as directory:
            calls = count_calls(Path(directory), partitions)
        ceiling = CEILINGS.get(partitions)
        allowed = "" if ceiling is None else f", {ceiling:,.0f} allowed"
        print(f"{partitions}: {calls.total() / TRANSACTIONS:,.1f} Python calls{allowed}")
        if chosen.list:
            for name, count in calls.most_common():
                print(f"  {count / TRANSACTIONS:6.2f}  {name}")
        with tempfile.TemporaryDirectory() as directory:
            us = measure_us(Path(directory), partitions, transactions)
        print(f"{partitions}: {us:,.0f} us of CPU, {build_name()}")
        if chosen.profile:
            with tempfile.TemporaryDirectory() as directory:
                print_profile(Path(directory), partitions, transactions)


if __name__ == "__main__":
    main()
