"""One client connection: length-prefixed frames in, buffers and file regions out, mute reasons.

The channel never looks inside a frame (protocol guide: 4-byte size, then the request). Bytes are
received into one buffer that all channels of a server share; only a frame that has not arrived
whole is moved into a buffer of its own, so a small request costs no copy and a large one is
received straight into the memory it is processed from. Whoever processes a frame must not keep
views of it: both kinds of buffer are used again.

    mute reason        set by                              cleared by
    RESPONSE_PENDING   a request was handed over           its response is written to the socket
    QUOTA              a response with a throttle time     the throttle timer
    MEMORY             the server holds too many bytes     bytes were released

The channel reads, and hands over frames, only while no reason is set (KIP-219, KIP-72).
"""

import contextlib
import enum
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from cluster.model.errors import PeerError, StorageFailed
from cluster.model.quotas import ANONYMOUS
from cluster.runtime.loop import READABLE, WRITABLE, EventLoop

_SIZE: Final = struct.Struct(">i")
_BYTES_TYPES: Final = (bytes, bytearray, memoryview)
_SENDFILE_ABOVE_BYTES: Final = 64 * 1024
"""Below this, copying from the mapping into the socket beats a second system call."""
_BUFFERS_PER_SEND: Final = 512
"""IOV_MAX is 1024 on Linux and macOS."""
_BUFFERS_AHEAD_MAX: Final = 512
"""Pipelined requests are handed over while fewer buffers than this wait to be written."""


class FileRegion(Protocol):
    """Bytes of a file to send: from the mapping when small, by sendfile when large (NET4)."""

    @property
    def position(self) -> int:
        """Where in the file the region begins."""
        ...

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        ...

    def fileno(self) -> int:
        """The open file."""
        ...

    def view(self) -> memoryview:
        """The region in the mapping, `size_bytes` long."""
        ...


Outgoing: TypeAlias = "bytes | bytearray | memoryview | FileRegion"


class MuteReason(enum.Flag):
    """Why a channel is not read."""

    RESPONSE_PENDING = enum.auto()
    QUOTA = enum.auto()
    MEMORY = enum.auto()


_NOT_MUTED: Final = MuteReason(0)


class ChannelOwner(Protocol):
    """What a channel needs of its server."""

    loop: EventLoop
    max_frame_bytes: int

    def scratch(self) -> memoryview:
        """The shared receive buffer; contents are lost when the callback returns."""
        ...

    def on_frame(self, channel: "Channel", frame: memoryview) -> None:
        """Process one frame; answers now or later through `Channel.respond`."""
        ...

    def on_closed(self, channel: "Channel", reason: str | None) -> None:
        """The channel is gone; `reason` is None when the peer closed it between two requests."""
        ...

    def take_buffer(self, channel: "Channel", size_bytes: int) -> bytearray | None:
        """A buffer of at least that size for one frame; None mutes the channel for now."""
        ...

    def give_back(self, buffer: bytearray, size_bytes: int) -> None:
        """The frame in that buffer has been processed or dropped."""
        ...


class Channel:
    """Lives from accept to close; used by its server's thread only.

    Invariant: at most one request is in progress, so answers leave in the order of requests.
    """

    __slots__ = (
        "_backlog",
        "_fill",
        "_flags",
        "_interest",
        "_is_processing",
        "_out",
        "_owner",
        "_partial",
        "_partial_size",
        "_socket",
        "last_active_ms",
        "listener_name",
        "mute_reasons",
        "on_close",
        "peer",
        "principal",
        "routes",
    )

    def __init__(
        self, connection: socket.socket, peer: str, listener_name: str, owner: ChannelOwner
    ) -> None:
        self._socket = connection
        self._owner = owner
        self.peer = peer
        self.listener_name = listener_name
        self.mute_reasons = _NOT_MUTED
        self.last_active_ms = owner.loop.now_ms
        self.on_close: Callable[[], None] | None = None
        """Set while a request of this channel waits in the purgatory: forgets it."""
        self.principal = ANONYMOUS
        """Who the peer has proved to be."""
        self.routes: dict[int, Any] = {}
        """What the request layer remembers of this connection's requests."""
        self._backlog = b""
        self._partial: bytearray | None = None
        self._partial_size = 0
        self._fill = 0
        self._out: deque[Outgoing] = deque()
        self._is_processing = False
        self._interest = READABLE
        owner.loop.watch(connection, READABLE, self._on_ready)

    @property
    def is_open(self) -> bool:
        """False once the socket is closed."""
        return self._interest >= 0

    # -- receive bytes, next request -----------------------------------------------------------

    def _on_ready(self, events: int) -> None:
        if not self.is_open:
            return  # closed earlier in this turn
        try:
            if events & WRITABLE:
                self._advance()
            if events & READABLE and self._interest & READABLE:
                self._receive()
        except PeerError as error:
            self._break_off(error)
        except OSError as error:
            self._on_lost(error)

    def _break_off(self, error: PeerError) -> None:
        """Close, after the answers to earlier requests, as far as the socket takes them now."""
        with contextlib.suppress(OSError, PeerError):
            self._flush()
        self.close(str(error))

    def _on_lost(self, error: OSError) -> None:
        # A reset between two requests is how many clients leave.
        in_request = self._partial is not None or self._backlog or self.mute_reasons
        self.close(f"connection lost: {error.strerror or error}" if in_request else None)

    def _receive(self) -> None:
        self.last_active_ms = self._owner.loop.now_ms
        if self._partial is not None:
            self._receive_into_partial(self._partial)
            return
        scratch = self._owner.scratch()
        kept = len(self._backlog)
        scratch[:kept] = self._backlog
        try:
            received = self._socket.recv_into(scratch[kept:])
        except (BlockingIOError, InterruptedError):
            return
        if received == 0:
            self.close(None if kept == 0 else "closed in the middle of a request")
            return
        self._backlog = b""
        self._process(scratch[: kept + received].toreadonly())
        self._advance()

    def _receive_into_partial(self, partial: bytearray) -> None:
        try:
            received = self._socket.recv_into(memoryview(partial)[self._fill : self._partial_size])
        except (BlockingIOError, InterruptedError):
            return
        if received == 0:
            self.close("closed in the middle of a request")
            return
        self._fill += received
        if self._fill == self._partial_size:
            self._partial = None
            try:
                self._hand_over(memoryview(partial)[: self._partial_size].toreadonly())
            finally:
                self._owner.give_back(partial, self._partial_size)
            self._advance()

    def _process(self, received: memoryview) -> None:
        """Hand over whole frames of `received`; keep the rest for later."""
        position = 0
        end = len(received)
        while end - position >= 4 and not self.mute_reasons and len(self._out) < _BUFFERS_AHEAD_MAX:
            size = _SIZE.unpack_from(received, position)[0]
            if size < 0 or size > self._owner.max_frame_bytes:
                raise PeerError(
                    f"request size {size} is not within 0..{self._owner.max_frame_bytes} bytes"
                    " (socket.request.max.bytes)"
                )
            frame_end = position + 4 + size
            if frame_end > end:
                partial = self._owner.take_buffer(self, size)
                if partial is None:
                    break
                self._fill = end - position - 4
                partial[: self._fill] = received[position + 4 : end]
                self._partial = partial
                self._partial_size = size
                position = end
                break
            self._hand_over(received[position + 4 : frame_end])
            position = frame_end
            if not self.is_open:
                return
        if position < end:
            self._backlog = bytes(received[position:])

    def _hand_over(self, frame: memoryview) -> None:
        self.mute_reasons |= MuteReason.RESPONSE_PENDING
        self._is_processing = True
        try:
            self._owner.on_frame(self, frame)
        finally:
            self._is_processing = False

    def _advance(self) -> None:
        """Write, then go on with requests that were received, until either has to wait."""
        while self.is_open:
            if self._out:
                self._flush()
            if self._out or self.mute_reasons or len(self._backlog) < 4:
                break
            backlog, self._backlog = self._backlog, b""
            self._process(memoryview(backlog))
        self._update_interest()

    # -- send reply, bytes to write ------------------------------------------------------------

    def respond(self, buffers: "list[Outgoing] | None") -> None:
        """Answer the request in progress; None when it has no answer (acks=0).

        Answers given while frames are being handed over leave together at the end of them.
        """
        if not self.is_open:
            return
        self.on_close = None
        if buffers is not None:
            self._out.extend(buffers)
        self.mute_reasons &= ~MuteReason.RESPONSE_PENDING
        if not self._is_processing:
            try:
                self._advance()
            except PeerError as error:
                self._break_off(error)
            except OSError as error:
                self._on_lost(error)

    def mute(self, reason: MuteReason) -> None:
        """Stop reading for this reason too."""
        self.mute_reasons |= reason
        if not self._is_processing:
            self._update_interest()

    def unmute(self, reason: MuteReason) -> None:
        """Drop one reason; with the last one gone the channel goes on with what it has received."""
        if reason & self.mute_reasons and self.is_open:
            self.mute_reasons &= ~reason
            try:
                self._advance()
            except PeerError as error:
                self._break_off(error)
            except OSError as error:
                self._on_lost(error)

    def _flush(self) -> None:
        out = self._out
        try:
            while out:
                sent_all = (
                    self._send_file(out) if _is_large_region(out[0]) else self._send_buffers(out)
                )
                if not sent_all:
                    break
        except StorageFailed as failure:
            # The answer has begun with its size, so there is no way left to say this in it.
            raise PeerError(str(failure)) from failure
        self.last_active_ms = self._owner.loop.now_ms

    def _send_buffers(self, out: "deque[Outgoing]") -> bool:
        buffers: list[bytes | bytearray | memoryview] = []
        size_bytes = 0
        for item in out:
            if _is_large_region(item) or len(buffers) == _BUFFERS_PER_SEND:
                break
            buffer = item if isinstance(item, _BYTES_TYPES) else item.view()
            size_bytes += len(buffer)
            buffers.append(buffer)
        more = socket.MSG_MORE if len(buffers) < len(out) and hasattr(socket, "MSG_MORE") else 0
        try:
            sent = self._socket.sendmsg(buffers, (), more)
        except (BlockingIOError, InterruptedError):
            return False
        if sent == size_bytes:
            for _ in buffers:
                out.popleft()
            return True
        for buffer in buffers:
            length = len(buffer)
            if sent < length:
                out[0] = memoryview(buffer)[sent:]
                return False
            sent -= length
            out.popleft()
        return True

    def _send_file(self, out: "deque[Outgoing]") -> bool:
        region = out[0]
        if isinstance(region, _BYTES_TYPES):
            return True
        try:
            sent = os.sendfile(
                self._socket.fileno(), region.fileno(), region.position, region.size_bytes
            )
        except (BlockingIOError, InterruptedError):
            return False
        if sent == 0:
            raise PeerError("the file ended before the region that was promised")
        if sent == region.size_bytes:
            out.popleft()
        elif isinstance(region, _RestOfRegion):
            region.advance(sent)
        else:
            out[0] = _RestOfRegion(region, sent)
        return True

    # -- interest, close -----------------------------------------------------------------------

    def _update_interest(self) -> None:
        if not self.is_open:
            return
        # Unsent output holds back reading too: a client that does not read gets no more answers.
        interest = WRITABLE if self._out else 0
        if not self.mute_reasons and not self._out:
            interest |= READABLE
        if interest != self._interest:
            loop = self._owner.loop
            if interest == 0:
                loop.unwatch(self._socket)
            elif self._interest == 0:
                loop.watch(self._socket, interest, self._on_ready)
            else:
                loop.rewatch(self._socket, interest, self._on_ready)
            self._interest = interest

    def close(self, reason: str | None) -> None:
        """Close the socket; `reason` (None: nothing wrong) goes to the server's one log line."""
        if not self.is_open:
            return
        if self._interest > 0:
            self._owner.loop.unwatch(self._socket)
        self._interest = -1
        self._socket.close()
        self._out.clear()
        if self._partial is not None:
            self._owner.give_back(self._partial, self._partial_size)
            self._partial = None
        if self.on_close is not None:
            self.on_close()
            self.on_close = None
        self._owner.on_closed(self, reason)


class _RestOfRegion:
    """What is left of a region after parts were sent; a slow reader takes thousands of them."""

    __slots__ = ("_region", "position", "size_bytes")

    def __init__(self, region: FileRegion, sent_bytes: int) -> None:
        self._region = region
        self.position = region.position + sent_bytes
        self.size_bytes = region.size_bytes - sent_bytes

    def advance(self, sent_bytes: int) -> None:
        """One more part was sent."""
        self.position += sent_bytes
        self.size_bytes -= sent_bytes

    def fileno(self) -> int:
        return self._region.fileno()

    def view(self) -> memoryview:
        return self._region.view()[self._region.size_bytes - self.size_bytes :]


def _is_large_region(item: "Outgoing") -> bool:
    return not isinstance(item, _BYTES_TYPES) and item.size_bytes > _SENDFILE_ABOVE_BYTES
