"""A client process of a simulation: a script that asks brokers, and waits for the answers.

A script is a generator. It yields one `Ask`, several that are sent together, or a `Pause`, and gets
what was answered: None where no answer came in time. Requests go to the handlers of the dispatch
table. Those of one connection arrive in their order. An answer that does not come in time ends the
connection, and a request on its way there is lost, or arrives late.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from cluster.brokers.handlers.request import Handler
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.ids import TopicPartition
from tests.simulation.broker import SimulatedBroker
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.committer import PARTITIONS

TIMEOUT_MS = 2_000
"""Of most requests."""
BACKOFF_MS = 40
LATE_MS = 6_000
"""The longest delay of a request."""
_STUCK_SHARE = 0.02
_LOST_SHARE = 0.015

ResultT = TypeVar("ResultT")


class Ask(NamedTuple):
    """One request to one broker."""

    broker: int
    handler: Handler[Any]
    version: int
    request: Any
    may_be_late: bool = True
    """Whether it may arrive after the client has given it up and sent others by another connection.
    That is never so of requests whose protocol has no defence against it."""
    copy: Callable[[Any], Any] = lambda answer: answer
    """Copies what an answer refers to, at the time when a broker would send it."""
    timeout_ms: int = TIMEOUT_MS


class Pause(NamedTuple):
    """So long in milliseconds."""

    ms: int


Script = Generator[Ask | list[Ask] | Pause, Any, ResultT]


class _Connection:
    """A connection to one life of a broker. It ends with the first late answer."""

    def __init__(self, cluster: SimulatedCluster, broker: SimulatedBroker) -> None:
        self._world = cluster.world
        self._cluster = cluster
        self._broker = broker
        self._arrival_ms = 0
        self._answer_ms = 0
        self.is_open = True

    @property
    def is_usable(self) -> bool:
        """Whether its broker lives, too."""
        return self.is_open and self._broker.node.is_alive

    def send(self, ask: Ask, on_answer: Callable[[Any], None]) -> None:
        world, random = self._world, self._world.random
        is_stuck = random.random() < _STUCK_SHARE
        delay_ms = random.randrange(LATE_MS) if is_stuck else world.delay_ms()
        self._arrival_ms = max(self._arrival_ms, world.now_ms + delay_ms)
        arrives_late = ask.may_be_late and random.random() < 0.5

        def arrive() -> None:
            if (self.is_open or arrives_late) and self._broker.node.is_alive:
                self._broker.handle(ask.handler, ask.version, ask.request, answer)

        def answer(response: Any) -> None:
            if random.random() < _LOST_SHARE:
                return
            response = ask.copy(response)
            self._answer_ms = max(self._answer_ms, world.now_ms + world.delay_ms())
            world.at(self._answer_ms, lambda: on_answer(response) if self.is_open else None)

        world.at(self._arrival_ms, arrive)


class ClientProcess:
    """One life of a client."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.random = cluster.random
        self.is_running = False
        self.ended_ms = 0
        self._connections: dict[int, _Connection] = {}
        self._script: Script[None] | None = None

    def start(self, script: Script[None]) -> None:
        """Run a script to its end, or until `kill`."""
        self.is_running = True
        self._script = script
        self._go_on(None)

    def kill(self) -> None:
        """kill -9; what it has sent may still arrive."""
        if self.is_running:
            self.cluster.world.note(f"client {self.name} is killed")
            self._end()
            self._script.close()

    def _end(self) -> None:
        self.is_running = False
        self.ended_ms = self.cluster.world.now_ms
        for connection in self._connections.values():
            connection.is_open = False

    def _go_on(self, result: Any) -> None:
        if not self.is_running:
            return
        try:
            waited = self._script.send(result)
        except StopIteration:
            self._end()
            return
        if isinstance(waited, Pause):
            self.cluster.world.after(waited.ms, lambda: self._go_on(None))
        elif isinstance(waited, list):
            self._ask_all(waited, self._go_on)
        else:
            self._ask_all([waited], lambda answers: self._go_on(answers[0]))

    def _ask_all(self, asks: list[Ask], on_answers: Callable[[list[Any]], None]) -> None:
        answers: dict[int, Any] = {}

        def take(number: int, answer: Any) -> None:
            if number not in answers:
                answers[number] = answer
                if len(answers) == len(asks):
                    on_answers([answers[each] for each in range(len(asks))])

        if not asks:
            self.cluster.world.after(0, lambda: on_answers([]))
        for number, ask in enumerate(asks):
            self._send(ask, lambda answer, number=number: take(number, answer))

    def _send(self, ask: Ask, on_answer: Callable[[Any], None]) -> None:
        world = self.cluster.world
        connection = self._connections.get(ask.broker)
        if connection is None or not connection.is_usable:
            connection = _Connection(self.cluster, self.cluster.brokers[ask.broker])
            if not connection.is_usable:
                world.after(1, lambda: on_answer(None))  # refused
                return
            self._connections[ask.broker] = connection
        used = connection

        def on_late() -> None:
            if self.is_running and not is_answered:
                used.is_open = False
                on_answer(None)

        def on_answer_in_time(response: Any) -> None:
            nonlocal is_answered
            if self.is_running and used.is_open:
                is_answered = True
                on_answer(response)

        is_answered = False
        used.send(ask, on_answer_in_time)
        world.after(ask.timeout_ms, on_late)

    # What scripts use

    def ask_coordinator(
        self,
        topic: str,
        key: str,
        handler: Handler[Any],
        version: int,
        request: Any,
        *,
        may_be_late: bool = True,
        is_present: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Script[Any]:
        """Ask the broker that some broker takes for the leader of a key's partition of an internal
        topic; None without one. `is_present`: ask the leader in the registry."""
        partition = TopicPartition(topic, partition_of(key, PARTITIONS))
        leader = self.cluster.believed_leader(partition)
        if is_present:
            state = self.cluster.registered_state(partition)
            leader = None if state is None or state.leader < 0 else state.leader
        if leader is None:
            yield Pause(BACKOFF_MS)
            return None
        ask = Ask(leader, handler, version, request, may_be_late, timeout_ms=timeout_ms)
        return (yield ask)
