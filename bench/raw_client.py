"""Raw connections that send one Produce request again and again, and time the answers.

The least that a client can do, so that the figures are those of the broker.
"""

import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from cluster.model.errors import UserError

_PATIENCE_S: Final = 60.0
_RETRY_S: Final = 0.05
_SIZE: Final = struct.Struct(">i")
_ERROR: Final = struct.Struct(">h")


class Problem(UserError):
    """A request was not answered as expected."""


class Answers:
    """Reads the answers to equal requests, which all have the same size, and checks each."""

    def __init__(self, size: int, error_at: int) -> None:
        """`error_at` is the position of the error code in an answer."""
        self.size = size
        self._error_at = error_at
        self._rest = b""

    def count(self, data: bytes) -> int:
        """How many answers these bytes complete. Raises Problem for an error code in one."""
        data = self._rest + data
        count = len(data) // self.size
        whole = count * self.size
        for at in (self._error_at, self._error_at + 1):
            if any(data[at : whole : self.size]):
                code = next(filter(None, self._codes(data, count)))
                raise Problem(f"a Produce request was answered with error {code}")
        self._rest = data[whole:]
        return count

    def _codes(self, data: bytes, count: int) -> list[int]:
        starts = range(0, count * self.size, self.size)
        return [_ERROR.unpack_from(data, start + self._error_at)[0] for start in starts]


class RawConnection:
    """A connection to the leader of a partition, and the Produce v7 request that it repeats."""

    def __init__(self, address: tuple[str, int], topic: str, frame: bytes) -> None:
        """Raises Problem if the partition's leader does not take the request."""
        self._frame = frame
        self.socket = socket.create_connection(address, _PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # size, correlation id, count of topics, name, count of partitions, index, error
        error_at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        self._answers = Answers(self._wait_for_leader(error_at), error_at)
        self.sent = 0.0
        """When the last requests left, by `time.perf_counter`."""

    def send(self, count: int) -> None:
        """Send the request so many times."""
        self.sent = time.perf_counter()
        self.socket.sendall(self._frame * count)

    def receive(self) -> int:
        """Wait for bytes. Returns how many answers they complete. Raises Problem."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise Problem("the broker has closed the connection")
        return self._answers.count(data)

    def _wait_for_leader(self, error_at: int) -> int:
        """Repeat the request until it succeeds. Returns the size of an answer."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            self.socket.sendall(self._frame)
            answer = self._read(4)
            answer += self._read(*_SIZE.unpack(answer))
            code = _ERROR.unpack_from(answer, error_at)[0]
            if code == 0:
                return len(answer)
            if time.monotonic() > deadline:
                raise Problem(f"a Produce request is answered with error {code}")
            time.sleep(_RETRY_S)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise Problem("the broker has closed the connection")
            data += part
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Driven(NamedTuple):
    """What came of some seconds of requests."""

    waits_us: list[float]
    """Of each request, if a connection has one in flight at a time; else empty."""
    requests: int
    """All that were answered."""
    rate: float
    """Requests answered per second, without those after the end of the time."""


def drive(connections: Sequence[RawConnection], depth: int, seconds: float) -> Driven:
    """Keep `depth` requests in flight on each connection for some seconds."""
    if depth == 1 and len(connections) == 1:
        return _drive_one(connections[0], seconds)
    waits: list[float] = []
    poll = select.poll()
    by_descriptor = {each.socket.fileno(): each for each in connections}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    began = time.perf_counter()
    for each in connections:
        each.send(depth)
    in_flight, in_time = depth * len(connections), 0
    ended = began
    requests = 0
    while in_flight:
        ready = poll.poll(_PATIENCE_S * 1000)
        if not ready:
            raise Problem(f"no answer within {_PATIENCE_S:g} s")
        for descriptor, _ in ready:
            connection = by_descriptor[descriptor]
            count = connection.receive()
            if not count:
                continue
            ended = time.perf_counter()
            requests += count
            if ended < began + seconds:
                if depth == 1:
                    waits.append((ended - connection.sent) * 1e6)
                in_time = requests
                connection.send(count)
            else:
                in_flight -= count
    return Driven(waits, requests, in_time / seconds)


def _drive_one(connection: RawConnection, seconds: float) -> Driven:
    waits: list[float] = []
    answered = time.perf_counter()
    end = answered + seconds
    while answered < end:
        began = answered
        connection.send(1)
        while not connection.receive():
            pass
        answered = time.perf_counter()
        waits.append((answered - began) * 1e6)
    return Driven(waits, len(waits), len(waits) / seconds)


def send_many(connection: RawConnection, count: int, window: int) -> None:
    """Send the request `count` times, with `window` of them in flight."""
    sent = answered = 0
    while answered < count:
        more = min(window - (sent - answered), count - sent)
        if more:
            connection.send(more)
            sent += more
        answered += connection.receive()
