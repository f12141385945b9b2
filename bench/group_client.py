"""A client of nothing but connections and packed requests: it costs the same for either system.

Requests have versions without tags that this project and Kafka 4 both serve.
"""

import asyncio
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

from cluster.model.error_codes import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.running_cluster import Address

CLIENT_ID: Final = b"bench"
SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 300_000
ASSIGNOR: Final = "range"
_HEAD: Final = struct.Struct(">hhih5s")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Problem(Exception):
    """An answer that a benchmark cannot go on with."""


def string(text: str | None) -> bytes:
    """A nullable string."""
    return _INT16.pack(-1) if text is None else _INT16.pack(len(text)) + text.encode()


def content(blob: bytes) -> bytes:
    """Bytes with their size in front."""
    return _INT32.pack(len(blob)) + blob


class Reader:
    """Takes an answer apart, from its beginning."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._at = 0

    def take(self, form: str) -> int:
        """One number; `form` as for `struct`."""
        (value,) = struct.unpack_from(">" + form, self._answer, self._at)
        self._at += struct.calcsize(">" + form)
        return int(value)

    def string(self) -> str:
        """A string; empty for none."""
        return self.raw(self.take("h")).decode()

    def content(self) -> bytes:
        """Bytes with their size in front."""
        return self.raw(self.take("i"))

    def raw(self, size: int) -> bytes:
        """So many bytes; none for less than one."""
        blob = self._answer[self._at : self._at + max(size, 0)]
        self._at += max(size, 0)
        return blob


class Connection(asyncio.Protocol):
    """One connection; answers come in the order of the requests."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def open(cls, address: Address) -> Self:
        """A new one."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, *address)
        return connection

    def call(self, api_key: ApiKey, version: int, body: bytes) -> "asyncio.Future[bytes]":
        """Send a request. The result is the answer behind its correlation id."""
        return self.send(frame_of(api_key, version, body))

    def send(self, frame: bytes) -> "asyncio.Future[bytes]":
        """Send a request that is a whole frame already."""
        assert self._transport is not None
        if self._transport.is_closing():
            raise ConnectionResetError("closed by the broker")
        self._transport.write(frame)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def close(self) -> None:
        """Close it; what waits is cancelled."""
        assert self._transport is not None
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        received = self._received + data if self._received else data
        at = 0
        while len(received) - at >= _INT32.size:
            (size,) = _INT32.unpack_from(received, at)
            end = at + _INT32.size + size
            if len(received) < end:
                break
            self._waiting.popleft().set_result(received[at + 2 * _INT32.size : end])
            at = end
        self._received = received[at:]

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        for future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionResetError(str(error)))


def frame_of(api_key: ApiKey, version: int, body: bytes) -> bytes:
    """A whole request."""
    head = _HEAD.pack(api_key, version, 7, len(CLIENT_ID), CLIENT_ID)
    return _INT32.pack(len(head) + len(body)) + head + body


# -- requests of no member -------------------------------------------------------------------------


class Place(NamedTuple):
    """A partition's replicas, by what Metadata says."""

    leader: int
    replicas: tuple[int, ...]


async def create_topic(
    connection: Connection, name: str, assignment: Sequence[Sequence[int]]
) -> ErrorCode:
    """Ask one broker to create a topic whose partitions have these replicas."""
    body = [_INT32.pack(1), string(name), struct.pack(">ihi", -1, -1, len(assignment))]
    for number, replicas in enumerate(assignment):
        body.append(struct.pack(f">ii{len(replicas)}i", number, len(replicas), *replicas))
    body.append(struct.pack(">iib", 0, 30_000, 0))
    answer = Reader(await connection.call(ApiKey.CREATE_TOPICS, 4, b"".join(body)))
    answer.take("i")
    answer.take("i")
    answer.string()
    return ErrorCode(answer.take("h"))


async def places(connection: Connection, topic: str) -> dict[int, Place]:
    """The partitions of a topic as one broker knows them; empty if it does not know it."""
    body = _INT32.pack(1) + string(topic) + b"\0"
    answer = Reader(await connection.call(ApiKey.METADATA, 4, body))
    answer.take("i")
    for _ in range(answer.take("i")):  # brokers
        answer.take("i")
        answer.string()
        answer.take("i")
        answer.string()
    answer.string()
    answer.take("i")
    answer.take("i")
    if answer.take("h"):
        return {}
    answer.string()
    answer.take("b")
    found = {}
    for _ in range(answer.take("i")):
        answer.take("h")
        number, leader = answer.take("i"), answer.take("i")
        replicas, _ = (
            tuple(answer.take("i") for _ in range(answer.take("i"))) for _ in ("all", "in sync")
        )
        found[number] = Place(leader, replicas)
    return found


async def find_coordinator(connection: Connection, group: str) -> int | None:
    """The broker that coordinates a group; None while there is none."""
    answer = Reader(await connection.call(ApiKey.FIND_COORDINATOR, 1, string(group) + b"\0"))
    answer.take("i")
    error = answer.take("h")
    answer.string()
    return None if error else answer.take("i")


async def fetch_offset(
    connection: Connection, group: str, topic: str, partition: int
) -> tuple[ErrorCode, int]:
    """What a group has committed for one partition; -1 for nothing."""
    body = string(group) + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, partition)
    answer = Reader(await connection.call(ApiKey.OFFSET_FETCH, 5, body))
    answer.take("i")
    offset = -1
    for _ in range(answer.take("i")):
        answer.string()
        for _ in range(answer.take("i")):
            answer.take("i")
            offset = answer.take("q")
            answer.take("i")
            answer.string()
            answer.take("h")
    return ErrorCode(answer.take("h")), offset


def commit_frame(
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    *,
    member: str = "",
    generation: int = -1,
) -> bytes:
    """OffsetCommit of partitions of one topic; by default of a consumer that is no member."""
    body = string(group) + _INT32.pack(generation) + string(member) + string(None)
    body += _INT32.pack(1) + string(topic) + _INT32.pack(len(offsets))
    body += b"".join(
        struct.pack(">iqih", partition, offset, -1, 0) for partition, offset in offsets.items()
    )
    return frame_of(ApiKey.OFFSET_COMMIT, 7, body)


def check_commit(answer: bytes) -> None:
    """Raises Problem unless every partition was committed."""
    reader = Reader(answer)
    reader.take("i")
    for _ in range(reader.take("i")):
        reader.string()
        for _ in range(reader.take("i")):
            partition = reader.take("i")
            expect(ErrorCode(reader.take("h")), f"commit of partition {partition}")


def expect(error: ErrorCode, what: str) -> None:
    """Raises Problem for an error."""
    if error is not ErrorCode.none:
        raise Problem(f"{what}: {error.name}")


# -- members of the classic protocol ---------------------------------------------------------------


class Member:
    """One consumer on a connection of its own; the leader deals out partitions in ranges."""

    def __init__(self, connection: Connection, group: str, topic: str, partitions: int) -> None:
        self.connection = connection
        self.group = group
        self.topic = topic
        self.id = ""
        self.generation = -1
        self.assigned: Sequence[int] = ()
        self._partitions = partitions

    async def enter(self) -> float:
        """Join and sync until there is an assignment.

        Returns when JoinGroup was first answered, by `time.perf_counter`.
        """
        first = 0.0
        while True:
            error, others = await self._join()
            first = first or time.perf_counter()
            if error is ErrorCode.none:
                error = await self._sync(others)
            if error is ErrorCode.none:
                return first
            if error is ErrorCode.coordinator_not_available:  # its replicas were too slow
                await asyncio.sleep(0.1)
            elif error is not ErrorCode.rebalance_in_progress:
                raise Problem(f"member of {self.group}: {error.name}")

    async def _join(self) -> tuple[ErrorCode, list[str]]:
        subscription = struct.pack(">hi", 0, 1) + string(self.topic) + content(b"")
        while True:
            body = string(self.group) + struct.pack(">ii", SESSION_MS, REBALANCE_MS)
            body += string(self.id) + string(None) + string("consumer")
            body += _INT32.pack(1) + string(ASSIGNOR) + content(subscription)
            answer = Reader(await self.connection.call(ApiKey.JOIN_GROUP, 5, body))
            answer.take("i")
            error = ErrorCode(answer.take("h"))
            self.generation = answer.take("i")
            answer.string()
            answer.string()
            self.id = answer.string()
            if error is not ErrorCode.member_id_required:
                break
        others = []
        for _ in range(answer.take("i")):
            others.append(answer.string())
            answer.string()
            answer.content()
        return error, others

    async def _sync(self, others: Sequence[str]) -> ErrorCode:
        body = string(self.group) + _INT32.pack(self.generation) + string(self.id) + string(None)
        body += _INT32.pack(len(others))
        for place, member in enumerate(others):
            first = self._partitions * place // len(others)
            end = self._partitions * (place + 1) // len(others)
            numbers = struct.pack(f">i{end - first}i", end - first, *range(first, end))
            assignment = struct.pack(">hi", 0, 1) + string(self.topic) + numbers + content(b"")
            body += string(member) + content(assignment)
        answer = Reader(await self.connection.call(ApiKey.SYNC_GROUP, 3, body))
        answer.take("i")
        error = ErrorCode(answer.take("h"))
        assignment = answer.content()
        self.assigned = _numbers_in(assignment) if error is ErrorCode.none else ()
        return error

    def frame(self) -> bytes:
        """A heartbeat in its generation."""
        body = string(self.group) + _INT32.pack(self.generation) + string(self.id) + string(None)
        return frame_of(ApiKey.HEARTBEAT, 3, body)

    def commit_frame(self, offset: int) -> bytes:
        """A commit of one offset for all that it has."""
        return commit_frame(
            self.group,
            self.topic,
            dict.fromkeys(self.assigned, offset),
            member=self.id,
            generation=self.generation,
        )

    def check(self, answer: bytes) -> None:
        """The answer to a heartbeat. Raises Problem unless it is alive in its generation."""
        (error,) = _INT16.unpack_from(answer, _INT32.size)
        expect(ErrorCode(error), "heartbeat")

    async def leave(self) -> None:
        """Leave the group."""
        body = string(self.group) + string(self.id)
        answer = Reader(await self.connection.call(ApiKey.LEAVE_GROUP, 1, body))
        answer.take("i")
        expect(ErrorCode(answer.take("h")), "leave")


def _numbers_in(assignment: bytes) -> list[int]:
    reader = Reader(assignment)
    reader.take("h")
    numbers = []
    for _ in range(reader.take("i")):
        reader.string()
        numbers += [reader.take("i") for _ in range(reader.take("i"))]
    return numbers
