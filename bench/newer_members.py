"""Members of the newer consumer protocol (KIP-848) for `bench/groups.py`, on its connections.

They take what they are assigned and give back what is taken from them at once, and say so with
their next heartbeat.
"""

import asyncio
import struct
import time
import uuid
from collections.abc import Sequence
from typing import Final

from bench.group_client import CLIENT_ID, Connection, Reader, expect
from cluster.model.error_codes import ErrorCode

CONSUMER_GROUP_HEARTBEAT: Final = 68
VERSION: Final = 1
INTERVAL_S: Final = 0.1
"""Of heartbeats while a group settles: clients beat every 5 s, which would hide what brokers do."""
_REBALANCE_MS: Final = 300_000
_NONE: Final = b"\0"
"""A compact string or array that is null; or no tags."""


def compact(text: str) -> bytes:
    """A compact string of less than 127 bytes."""
    raw = text.encode()
    return bytes((len(raw) + 1,)) + raw


def varint(number: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class CompactReader(Reader):
    """Takes an answer in the compact encoding apart."""

    def size(self) -> int:
        """Of what follows; -1 for null."""
        return self.varint() - 1

    def varint(self) -> int:
        """An unsigned varint."""
        number = shift = 0
        while True:
            byte = self.take("B")
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def string(self) -> str:
        """A string; empty for null."""
        return self.raw(self.size()).decode()


async def serves_newer_protocol(connection: Connection) -> bool:
    """Whether a broker offers ConsumerGroupHeartbeat."""
    answer = Reader(await connection.call(18, 0, b""))
    expect(ErrorCode(answer.take("h")), "ApiVersions")
    offered = {}
    for _ in range(answer.take("i")):
        key, _, newest = answer.take("h"), answer.take("h"), answer.take("h")
        offered[key] = newest
    return offered.get(CONSUMER_GROUP_HEARTBEAT, -1) >= VERSION


class NewerMember:
    """One consumer on a connection of its own."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self.connection = connection
        self.group = group
        self.topic = topic
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: Sequence[int] = ()
        self._topic_id = bytes(16)

    async def beat(self, *, is_joining: bool = False) -> bool:
        """One heartbeat; whether its answer has brought another assignment."""
        answer = await self.connection.send(self.frame(is_joining=is_joining, with_owned=True))
        return self._take(answer)

    def frame(self, *, is_joining: bool = False, with_owned: bool = False) -> bytes:
        """A heartbeat: the first with all that there is to say, later ones with what is owned."""
        body = compact(self.group) + compact(self.id) + struct.pack(">i", self.epoch)
        body += _NONE + _NONE  # instance and rack
        body += struct.pack(">i", _REBALANCE_MS if is_joining else -1)
        body += b"\2" + compact(self.topic) if is_joining else _NONE
        body += _NONE + _NONE  # expression and assignor
        if not with_owned:
            body += _NONE
        elif not self.owned:
            body += b"\1"
        else:
            numbers = struct.pack(f">{len(self.owned)}i", *self.owned)
            body += b"\2" + self._topic_id + varint(len(self.owned) + 1) + numbers + _NONE
        head = struct.pack(">hhih", CONSUMER_GROUP_HEARTBEAT, VERSION, 7, len(CLIENT_ID))
        frame = head + CLIENT_ID + _NONE + body + _NONE
        return struct.pack(">i", len(frame)) + frame

    def _take(self, answer: bytes) -> bool:
        reader = CompactReader(answer)
        reader.varint()  # tags of the header
        reader.take("i")
        error = ErrorCode(reader.take("h"))
        expect(error, f"member of {self.group}: {reader.string()}")
        reader.string()
        self.epoch = reader.take("i")
        reader.take("i")
        if reader.take("b") < 0:
            return False
        owned: list[int] = []
        for _ in range(reader.size()):
            self._topic_id = reader.raw(16)
            owned += [reader.take("i") for _ in range(reader.size())]
            reader.varint()
        self.owned = owned
        return True

    def check(self, answer: bytes) -> None:
        """The answer to a heartbeat. Raises Problem unless the member is alive in its epoch."""
        (error,) = struct.unpack_from(">h", answer, 5)
        expect(ErrorCode(error), "heartbeat")

    async def leave(self) -> None:
        """Leave the group."""
        self.epoch = -1
        self._take(await self.connection.send(self.frame()))


async def settle_newer(members: Sequence[NewerMember], partitions: int, deadline_s: float) -> float:
    """All members of a group join at once and beat. Returns the seconds until each has its share,
    which all of them have in the same epoch."""
    began = time.perf_counter()
    share = partitions // len(members)
    is_settled = asyncio.Event()

    def look() -> None:
        held = sorted(number for member in members for number in member.owned)
        if (
            held == list(range(partitions))
            and all(len(member.owned) == share for member in members)
            and len({member.epoch for member in members}) == 1
        ):
            is_settled.set()

    async def live(member: NewerMember) -> None:
        has_news = await member.beat(is_joining=True)
        while not is_settled.is_set():
            if has_news:
                has_news = await member.beat()
            else:
                look()
                await asyncio.sleep(INTERVAL_S)
                has_news = await member.beat()
            look()

    await asyncio.wait_for(asyncio.gather(*map(live, members)), deadline_s)
    return time.perf_counter() - began
