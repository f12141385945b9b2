"""Time, nodes and messages of a simulation: one thread, one heap of events, one seed.

A node is one life of a broker process. `SimulatedLoop` stands in for `EventLoop`, and
`SimulatedRouter` and `SimulatedDealer` for the ZeroMQ sockets: messages of one connection arrive in
order, a connection that breaks loses what is under way, and while two brokers are apart their
messages wait (they may arrive much later, as with TCP).
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from cluster.runtime.loop_time import LoopTime

log = logging.getLogger("cluster")
FIRST_MS = 1_000
WALL_OFFSET_MS = 1_700_000_000_000


class World:
    """The clock, what is to happen, and who cannot reach whom."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = FIRST_MS
        self.after_each: Callable[[], None] = lambda: None
        self.trace: deque[str] = deque(maxlen=400)
        self.event_count = 0
        self.running: Node | None = None
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.routers: dict[str, SimulatedRouter] = {}
        self.connections: dict[int, Connection] = {}
        self._apart: set[frozenset[object]] = set()
        self.shared_turns = 0.0
        """The share of turns that go on with the next event of the same time."""
        self._connection_count = 0

    # Clock

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1_000

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def thread_cpu_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return self.now_ms + WALL_OFFSET_MS

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    # Events

    def note(self, what: str) -> None:
        self.trace.append(f"{self.now_ms:>7} {what}")

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (max(time_ms, self.now_ms), self._sequence, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run_for(self, duration_ms: int) -> None:
        self.run_until(lambda: False, duration_ms)

    def run_until(self, condition: Callable[[], bool], limit_ms: int) -> bool:
        """Let events happen until the condition holds; False when the time is over before."""
        end_ms = self.now_ms + limit_ms
        while not condition():
            if not self._events or self._events[0][0] > end_ms:
                self.now_ms = end_ms
                return condition()
            self.now_ms, _, action = heapq.heappop(self._events)
            self.event_count += 1
            action()
            self.after_each()
        return True

    # Network

    def delay_ms(self) -> int:
        """Mostly next to nothing, now and then a while, rarely long."""
        dice = self.random.random()
        if dice < 0.85:
            return self.random.randrange(3)
        return self.random.randrange(40) if dice < 0.99 else self.random.randrange(400)

    def next_connection_number(self) -> int:
        self._connection_count += 1
        return self._connection_count

    def is_apart(self, first: object, second: object) -> bool:
        return frozenset((first, second)) in self._apart

    def separate(self, first: object, second: object) -> None:
        self._apart.add(frozenset((first, second)))

    def join(self, first: object, second: object, *, breaks: bool | None = None) -> None:
        """They reach each other again; what waited arrives now, unless the connection breaks (None:
        the dice decide).
        """
        self._apart.discard(frozenset((first, second)))
        for connection in list(self.connections.values()):
            if {connection.dealer.node.broker, connection.router_broker} == {first, second}:
                if self.random.random() < 0.5 if breaks is None else breaks:
                    connection.break_off()
                else:
                    connection.go_on()

    def break_connections(self, first: object, second: object) -> None:
        """What is under way between them is lost; they connect again."""
        for connection in list(self.connections.values()):
            if {connection.dealer.node.broker, connection.router_broker} == {first, second}:
                connection.break_off()


class TraceHandler(logging.Handler):
    """Puts what brokers log into the trace."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        node = self._world.running
        who = "" if node is None else f"broker {node.broker}: "
        self._world.note(f"    {who}{record.getMessage()}")


class Killed(BaseException):
    """The process is killed in the middle of a turn: what calls this goes no further."""


class Node:
    """One life of a broker process; nothing of it runs any more once it is dead."""

    def __init__(self, world: World, broker: int, life: int) -> None:
        self.world = world
        self.broker = broker
        self.life = life
        self.is_alive = True
        self.is_paused = False
        self.kill_at_send: Callable[[], None] | None = None
        """Kills the process when it is about to send its next message."""
        self.kill_before_deferred: Callable[[], None] | None = None
        """Kills the process in its next turn that defers something, before that is called."""
        self.on_death: list[Callable[[Node], None]] = []
        self._deferred: deque[Callable[[], None]] = deque()
        self._backlog: deque[Callable[[], None]] = deque()
        self._router_count = 0
        self._is_turn_open = False

    def new_endpoint(self) -> str:
        self._router_count += 1
        return f"sim:{self.broker}/{self.life}/{self._router_count}"

    def router(
        self,
        loop: "SimulatedLoop",
        host: str,
        on_message: Callable[[bytes, list[bytes]], None],
        port: int = 0,
    ) -> "SimulatedRouter":
        return SimulatedRouter(self, on_message)

    def dealer(
        self, loop: "SimulatedLoop", endpoint: str, on_message: Callable[[list[bytes]], None]
    ) -> "SimulatedDealer":
        return SimulatedDealer(self, endpoint, on_message)

    def run(self, action: Callable[[], None]) -> None:
        """One turn of the broker's loop, or a part of one; later, while the process is paused."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._backlog.append(action)
            return
        self.world.running = self
        try:
            action()
            if self._deferred and not self._goes_on():
                self._end_turn()
        except Killed:
            pass
        self.world.running = None

    def _goes_on(self) -> bool:
        """Whether what comes at the same time belongs to this turn, too."""
        world = self.world
        if not self._is_turn_open:
            if not world.shared_turns or world.random.random() >= world.shared_turns:
                return False
            self._is_turn_open = True
            world.after(0, lambda: self.run(self._close_turn))
        return True

    def _close_turn(self) -> None:
        self._is_turn_open = False
        self._end_turn()

    def _end_turn(self) -> None:
        if self._deferred and self.kill_before_deferred is not None:
            self.kill_before_deferred()
        self.run_deferred()

    def before_send(self) -> None:
        """Call this before each message that the process sends. Raises Killed."""
        if self.kill_at_send is not None and self.is_alive:
            self.kill_at_send()
            raise Killed

    def run_deferred(self) -> None:
        while self._deferred and self.is_alive:
            self._deferred.popleft()()

    def defer(self, action: Callable[[], None]) -> None:
        self._deferred.append(action)

    def resume(self) -> None:
        self.is_paused = False
        while self._backlog and not self.is_paused:
            self.run(self._backlog.popleft())

    def die(self) -> None:
        """What it has sent may still arrive."""
        self.is_alive = False
        self._backlog.clear()
        self._deferred.clear()
        for connection in list(self.world.connections.values()):
            if connection.dealer.node is self:
                connection.lose_dealer()
            elif connection.router_node is self:
                connection.lose_router()
        for endpoint, router in list(self.world.routers.items()):
            if router.node is self:
                del self.world.routers[endpoint]
        for tell in self.on_death:
            tell(self)


class SimulatedTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class SimulatedLoop:
    """What the parts of a broker use of `EventLoop`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.time = LoopTime(node.world.monotonic_ns, node.world.thread_cpu_ns)

    @property
    def now_ms(self) -> int:
        return self._node.world.now_ms

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> SimulatedTimer:
        timer = SimulatedTimer(callback)
        self._node.world.at(deadline_ms, lambda: self._node.run(timer.fire))
        return timer

    def call_after(self, delay_ms: int, callback: Callable[[], None]) -> SimulatedTimer:
        return self.call_at(self.now_ms + delay_ms, callback)

    def call_every(self, period_ms: int, callback: Callable[[], None]) -> None:
        def again() -> None:
            callback()
            self.call_after(period_ms, again)

        self.call_after(period_ms, again)

    def defer(self, callback: Callable[[], None]) -> None:
        self._node.defer(callback)

    def next_turn(self, callback: Callable[[], None]) -> None:
        self.call_from_thread(callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        self._node.world.after(0, lambda: self._node.run(callback))


class _Way:
    """One direction of a connection: in order, never lost without the connection."""

    def __init__(self, connection: "Connection", deliver: Callable[[list[bytes]], None]) -> None:
        self._connection = connection
        self._deliver = deliver
        self._held: deque[list[bytes]] = deque()
        self._last_ms = 0
        self._generation = 0

    def send(self, frames: list[bytes]) -> None:
        world = self._connection.world
        generation = self._generation
        self._last_ms = max(self._last_ms, world.now_ms + world.delay_ms())
        world.at(self._last_ms, lambda: self._arrive(generation, frames))

    def _arrive(self, generation: int, frames: list[bytes]) -> None:
        if generation != self._generation:
            return
        if self._held or self._connection.is_apart:
            self._held.append(frames)
        else:
            self._deliver(frames)

    def go_on(self) -> None:
        held, self._held = self._held, deque()
        for frames in held:
            self._deliver(frames)

    def lose(self) -> None:
        self._generation += 1
        self._held.clear()


class Connection:
    """A connection of one dealer to one router; it ends with either process."""

    def __init__(self, world: World, dealer: "SimulatedDealer", endpoint: str) -> None:
        self.world = world
        self.dealer = dealer
        self.endpoint = endpoint
        self.router_broker = int(endpoint.removeprefix("sim:").split("/")[0])
        self.number = 0
        self.is_open = True
        self._requests = _Way(self, self._to_router)
        self._replies = _Way(self, self._to_dealer)
        self._take_number()

    def _take_number(self) -> None:
        self.world.connections.pop(self.number, None)
        self.number = self.world.next_connection_number()
        self.world.connections[self.number] = self

    @property
    def router_node(self) -> Node | None:
        router = self.world.routers.get(self.endpoint)
        return None if router is None else router.node

    @property
    def is_apart(self) -> bool:
        return self.world.is_apart(self.dealer.node.broker, self.router_broker)

    def send_request(self, frames: list[bytes]) -> None:
        self._requests.send(frames)

    def send_reply(self, frames: list[bytes]) -> None:
        self._replies.send(frames)

    def _to_router(self, frames: list[bytes]) -> None:
        router = self.world.routers.get(self.endpoint)
        if router is not None and router.is_open:
            identity = self.number.to_bytes(4, "big")
            router.node.run(lambda: router.deliver(identity, frames))

    def _to_dealer(self, frames: list[bytes]) -> None:
        self.dealer.node.run(lambda: self.dealer.deliver(frames))

    def go_on(self) -> None:
        self._requests.go_on()
        self._replies.go_on()

    def break_off(self) -> None:
        """It is made again at once, under another identity."""
        self._requests.lose()
        self._replies.lose()
        self._take_number()
        self.dealer.tell_connection(False)
        self.dealer.tell_connection(True)

    def close(self) -> None:
        self.is_open = False
        self._requests.lose()
        self._replies.lose()
        self.world.connections.pop(self.number, None)

    def lose_dealer(self) -> None:
        self.is_open = False
        self._replies.lose()
        if self.world.random.random() < 0.5:
            self._requests.lose()
        self.world.connections.pop(self.number, None)

    def lose_router(self) -> None:
        """The dealer's requests go nowhere from now on."""
        self.dealer.tell_connection(False)
        self._requests.lose()
        if self.world.random.random() < 0.5:
            self._replies.lose()


class SimulatedRouter:
    """Stands in for `zmq_link.Router`."""

    def __init__(self, node: Node, on_message: Callable[[bytes, list[bytes]], None]) -> None:
        self.node = node
        self.endpoint = node.new_endpoint()
        self.is_open = True
        self._on_message = on_message
        node.world.routers[self.endpoint] = self

    def deliver(self, identity: bytes, frames: list[bytes]) -> None:
        if self.is_open:
            self._on_message(identity, frames)

    def send(self, identity: bytes, frames: Sequence[Any]) -> bool:
        self.node.before_send()
        connection = self.node.world.connections.get(int.from_bytes(identity, "big"))
        if not self.is_open or connection is None or connection.endpoint != self.endpoint:
            return False
        connection.send_reply([bytes(frame) for frame in frames])
        return True

    def close(self) -> None:
        self.is_open = False
        self.node.world.routers.pop(self.endpoint, None)


class SimulatedDealer:
    """Stands in for `zmq_link.Dealer`."""

    def __init__(
        self, node: Node, endpoint: str, on_message: Callable[[list[bytes]], None]
    ) -> None:
        self.node = node
        self.endpoint = endpoint
        self._on_message = on_message
        self._on_change: Callable[[bool], None] | None = None
        self._connection = Connection(node.world, self, endpoint)

    def watch_connection(self, on_change: Callable[[bool], None]) -> None:
        self._on_change = on_change
        if self._connection.router_node is not None:
            self.tell_connection(True)

    def tell_connection(self, stands: bool) -> None:
        """A little later, unless it is closed by then."""

        def tell() -> None:
            if self._on_change is not None and self._connection.is_open:
                self._on_change(stands)

        world = self.node.world
        world.after(1, lambda: self.node.run(tell))

    def deliver(self, frames: list[bytes]) -> None:
        if self._connection.is_open:
            self._on_message(frames)

    def send(self, frames: Sequence[Any]) -> bool:
        if not self._connection.is_open:
            return False
        self.node.before_send()
        self._connection.send_request([bytes(frame) for frame in frames])
        return True

    def close(self) -> None:
        self._connection.close()
