"""One channel over a socket pair, and its owner in place of a server."""

import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final

from cluster.brokers.network.channel import Channel
from cluster.brokers.network.connection import MuteReason
from cluster.runtime.loop import EventLoop, HasFileno
from cluster.runtime.transport import Buffer, PlainTransport
from tests.support.fake_clock import FakeClock

SCRATCH_BYTES: Final = 32 * 1024
AHEAD: Final = b"go"
"""How frames begin that may be handed over while answers are pending."""


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class WatchedTransport(PlainTransport):
    """Reports sends to the server; limits the bytes of a file sent at once."""

    def __init__(self, connection: socket.socket, server: "ChannelStage") -> None:
        super().__init__(connection)
        self._server = server
        self.file_bytes_at_once = 1 << 30
        self.expected: list[int] = []

    def expect(self, size_bytes: int) -> None:
        self.expected.append(size_bytes)

    def send_file(self, source: HasFileno, position: int, size_bytes: int) -> int:
        return super().send_file(source, position, min(size_bytes, self.file_bytes_at_once))

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        self._server.on_send()
        return super().send_buffers(buffers, more=more)


class ChannelStage:
    """The owner of one channel; `process` handles a frame, by default as an echo."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.max_frame_bytes = 1_000_000
        self.frames: list[bytes] = []
        self.closed: list[str | None] = []
        self.memory_is_short = False
        self.buffers_out = 0
        self.backlog_bytes = 0
        self.pending_weight = 0
        self.may_go_ahead: Callable[[Channel, memoryview], bool] = lambda _, frame: (
            bytes(frame[:2]) == AHEAD
        )
        self.largest_buffer = 0
        self.held_bytes = 0
        self.unsent: list[int] = []
        self.on_send: Callable[[], None] = lambda: None
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.process: Callable[[Channel, bytes], None] = lambda channel, frame: channel.respond(
            [framed(frame)]
        )

        def on_frame(channel: Channel, frame: memoryview) -> None:
            self.frames.append(bytes(frame))
            self.process(channel, bytes(frame))

        self.on_frame: Callable[[Channel, memoryview], None] = on_frame
        self.ours, self.client = socket.socketpair()
        self.ours.setblocking(False)
        self.client.settimeout(10)
        self.transport = WatchedTransport(self.ours, self)
        self.channel = Channel(self.transport, "the client", "PLAINTEXT", self)

    def scratch(self) -> memoryview:
        return self._scratch

    def on_closed(self, channel: Channel, reason: str | None) -> None:
        self.closed.append(reason)

    def take_buffer(
        self, channel: Channel, size_bytes: int, arrived_bytes: int
    ) -> bytearray | None:
        if self.memory_is_short:
            channel.mute_reasons |= MuteReason.MEMORY
            return None
        self.buffers_out += 1
        return bytearray(min(size_bytes + 100, 2 * arrived_bytes))

    def grow_buffer(
        self, channel: Channel, buffer: bytearray, filled_bytes: int, size_bytes: int
    ) -> bytearray | None:
        if self.memory_is_short:
            channel.mute_reasons |= MuteReason.MEMORY
            return None
        grown = bytearray(min(size_bytes + 100, 2 * filled_bytes))
        grown[:filled_bytes] = buffer[:filled_bytes]
        self.largest_buffer = max(self.largest_buffer, len(grown))
        return grown

    def give_back(self, channel: Channel, buffer: bytearray) -> None:
        buffer[:] = b"\xee" * len(buffer)
        self.buffers_out -= 1

    def hold(self, channel: Channel, size_bytes: int) -> None:
        self.held_bytes = size_bytes

    def let_go(self, channel: Channel) -> None:
        self.held_bytes = 0

    def on_unsent(self, channel: Channel, size_bytes: int) -> None:
        self.unsent.append(size_bytes)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.run_once(max_wait_ms=0)

    def drain(self) -> bytes:
        """All bytes that the client receives until no more come."""
        received = bytearray()
        self.client.setblocking(False)
        idle_turns = 0
        while idle_turns < 3:
            self.turn()
            try:
                part = self.client.recv(1 << 16)
            except BlockingIOError:
                idle_turns += 1
                continue
            if not part:
                break
            received += part
            idle_turns = 0
        return bytes(received)

    def stop(self) -> None:
        self.channel.close(None)
        self.client.close()
        self.loop.close()
