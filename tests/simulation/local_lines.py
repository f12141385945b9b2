"""Local connections of a simulation, beside those of ZeroMQ in `world`.

What is sent is in the receiver's buffer at once, as with a Unix socket, so a process that looks
finds it; until it is woken, it takes as long as with any other message. So what goes either way may
overtake what goes the other. Brokers that are apart keep these connections, and each ends with
either process.
"""

from collections import deque
from random import Random

from cluster.protocol.peer.compact import COMPACT_ANSWER, COMPACT_FETCH
from cluster.runtime.peer_sockets import LocalConnection, OnLocalClosed, OnLocalMessage
from tests.simulation.world import Node, SimulatedLoop, World

_BUFFERED_MAX = 20
"""Messages in one direction; the kernel takes some more."""


class LocalLines:
    """All local connections and listeners of a simulation, and the faults that befall them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.listeners: dict[str, SimulatedListener] = {}
        self.lines: list[tuple[SimulatedEnd, SimulatedEnd]] = []
        """The ends of the follower and of the leader; without those that are closed at both."""
        self.refused: set[int] = set()
        """Brokers that nobody can connect to."""
        self.lost_share = 0.0
        """The share of messages that cannot be sent."""
        self.delivered = 0

    def of(self, broker: int | None = None) -> list[tuple["SimulatedEnd", "SimulatedEnd"]]:
        """The connections that stand, of one broker or of all."""
        self.lines = [line for line in self.lines if line[0].is_open or line[1].is_open]
        return [
            line
            for line in self.lines
            if broker is None or broker in (line[0].node.broker, line[1].node.broker)
        ]

    def on_death(self, node: Node) -> None:
        """Its connections end; what it has sent may still arrive."""
        for line in self.of(node.broker):
            for end in line:
                if end.node is node:
                    end.close()
        for address, listener in list(self.listeners.items()):
            if listener.node is node:
                del self.listeners[address]

    def break_one(self, random: Random) -> None:
        """Somebody closes the connection, with or without having read what is there."""
        lines = self.of()
        if lines:
            end, peer = random.sample(random.choice(lines), 2)
            self.world.note(f"local connection {end.node.broker} - {peer.node.broker} breaks")
            for one in (end, peer):
                if random.random() < 0.5:
                    one.buffer.clear()
                one.is_peer_there = False
                one.wake()

    def send_garbage(self, random: Random) -> None:
        """Something that is no message arrives behind what was sent."""
        lines = self.of()
        if lines:
            end = random.choice(random.choice(lines))
            self.world.note(f"garbage for broker {end.node.broker}")
            end.buffer.append(garbage(random))
            end.wake()


def garbage(random: Random) -> bytes:
    """Bytes that neither a leader nor a follower can take for a message of the other."""
    kind = random.choice([COMPACT_FETCH, COMPACT_ANSWER])
    return random.choice(
        [
            b"?",
            b"\xff" + random.randbytes(random.randrange(80)),
            bytes([kind]),
            bytes([kind]) + random.randbytes(20 + random.randrange(1, 27)),
            bytes([kind]) * (16 << 10),
        ]
    )


class SimulatedEnd:
    """One end of a connection; stands in for `local_link.UnixConnection`."""

    def __init__(
        self,
        lines: LocalLines,
        node: Node,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> None:
        self.node = node
        self.buffer: deque[bytes] = deque()
        self.is_open = True
        self.is_peer_there = True
        self.peer: SimulatedEnd
        self._lines = lines
        self._on_message = on_message
        self._on_closed = on_closed

    def wake(self) -> None:
        """Let its process look, some time later."""
        world = self.node.world
        world.after(world.delay_ms(), lambda: self.node.run(self.look))

    def look(self) -> None:
        """Receive one message, and be woken again for the next."""
        if self.receive() and (self.buffer or not self.is_peer_there):
            self.wake()

    def send(self, message: bytes) -> bool:
        self.node.before_send()
        random = self.node.world.random
        if not (self.is_open and self.is_peer_there and self.peer.is_open):
            return False
        if len(self.peer.buffer) >= _BUFFERED_MAX or random.random() < self._lines.lost_share:
            return False
        self.peer.buffer.append(bytes(message))
        self.peer.wake()
        return True

    def receive(self) -> bool:
        if not self.is_open:
            return False
        if self.buffer:
            message = self.buffer.popleft()
            self._lines.delivered += 1
            self._on_message(self, memoryview(message))
            return True
        if not self.is_peer_there:
            self.close()
            self._on_closed(self)
        return False

    def close(self) -> None:
        """Close it; the peer loses what it has not read yet if this end had not read all."""
        if self.is_open:
            self.is_open = False
            self.peer.is_peer_there = False
            if self.buffer and self.node.world.random.random() < 0.5:
                self.peer.buffer.clear()
            self.buffer.clear()
            self.peer.wake()


class SimulatedListener:
    """Stands in for `local_link.UnixListener`."""

    def __init__(
        self,
        lines: LocalLines,
        node: Node,
        address: str,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> None:
        self.node = node
        self._lines = lines
        self._address = address
        self._on_message = on_message
        self._on_closed = on_closed

    def accept(self) -> SimulatedEnd:
        return SimulatedEnd(self._lines, self.node, self._on_message, self._on_closed)

    def receive_all(self) -> None:
        for _, end in self._lines.of(self.node.broker):
            if end.node is self.node:
                while end.receive():
                    pass

    def close(self) -> None:
        self._lines.listeners.pop(self._address, None)
        for _, end in self._lines.of(self.node.broker):
            if end.node is self.node:
                end.close()


class SimulatedLocalSockets:
    """Stands in for `local_link.UnixSockets`, for one life of a broker."""

    def __init__(self, lines: LocalLines, node: Node) -> None:
        self._lines = lines
        self._node = node

    def listen(
        self,
        loop: SimulatedLoop,
        address: str,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> SimulatedListener:
        listener = SimulatedListener(self._lines, self._node, address, on_message, on_closed)
        self._lines.listeners[address] = listener
        return listener

    def connect(
        self,
        loop: SimulatedLoop,
        address: str,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> LocalConnection | None:
        listener = self._lines.listeners.get(address)
        if listener is None or listener.node.broker in self._lines.refused:
            return None
        end = SimulatedEnd(self._lines, self._node, on_message, on_closed)
        end.peer = listener.accept()
        end.peer.peer = end
        self._lines.lines.append((end, end.peer))
        return end
