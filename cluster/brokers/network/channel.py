"""One client connection: length-prefixed frames in, buffers and file regions out, mute reasons.

The channel never looks inside a frame (protocol guide: 4-byte size, then the request). Bytes are
received into one buffer that all channels of a server share; only an incomplete frame is moved into
its own buffer, so a small request costs no copy and a large one is received straight into the
memory from which it is processed. That buffer grows with the received bytes: the size that a peer
announces takes no memory. The handler of a frame must not keep views of it, because both kinds of
buffer are reused.

    mute reason        set by                              cleared by
    RESPONSE_PENDING   a request was handed over           its response is written to the socket,
                                                           or only the response is missing (`go_on`)
    QUOTA              a response with a throttle time     the throttle timer
    MEMORY             the server holds too many bytes     bytes were released, or it is the oldest
    CLOSING            the last answer leaves              never

The channel reads, and hands over frames, only while no reason is set (KIP-219, KIP-72). While
answers are pending, it hands over only frames that its owner lets go ahead (Produce), and only so
many (`pending_answers`); any other frame waits until they are given.
"""

import contextlib
import struct
from collections.abc import Callable
from typing import Final, Protocol

from cluster.brokers.network.client_facts import ClientFacts
from cluster.brokers.network.connection import MuteReason, Outgoing
from cluster.brokers.network.outgoing import BYTES_TYPES, Output, holds_deleted_file
from cluster.brokers.network.pending_answers import (
    PENDING_MAX_OF_ALL,
    PendingAnswers,
    QueuedAnswer,
)
from cluster.model.errors import PeerError
from cluster.runtime.arrived_bytes import arrived_bytes
from cluster.runtime.loop import READABLE, WRITABLE, EventLoop
from cluster.runtime.loop_time import Payer
from cluster.runtime.transport import Transport

_SIZE: Final = struct.Struct(">i")
_TLS_HELLO: Final = 0x1603
"""How the first record of a TLS client begins: a handshake message of version 3."""
BUFFERS_AHEAD_MAX: Final = 512
"""Pipelined requests are handed over while fewer buffers than this wait to be written."""
_AHEAD_MAX_BYTES: Final = 64 * 1024
"""Pipelined requests are handed over while fewer bytes than this wait to be written; file regions
are no bytes in memory. A client that does not read makes the broker hold this and one more answer.
"""
_RESPONSE_PENDING: Final = MuteReason.RESPONSE_PENDING
BACKLOG_MAX_BYTES: Final = 16 * 1024
"""A frame of which less has arrived has no buffer yet; every connection may hold as much."""


class ChannelOwner(Protocol):
    """The server, as a channel uses it."""

    loop: EventLoop
    max_frame_bytes: int
    on_frame: Callable[["Channel", memoryview], None]
    """Processes one frame; answers now or later through `Channel.respond`."""
    may_go_ahead: Callable[["Channel", memoryview], bool]
    """Whether a frame, of which at least two bytes are given, may be processed while answers to
    earlier ones are pending."""
    pending_weight: int
    """Sum over all channels of the pending answers, each counted for each of its partitions."""
    backlog_bytes: int
    """Sum over all channels of what was received and is not part of a frame's own buffer."""

    def scratch(self) -> memoryview:
        """The shared receive buffer, larger than `BACKLOG_MAX_BYTES`; its contents are lost when
        the callback returns."""
        ...

    def on_closed(self, channel: "Channel", reason: str | None) -> None:
        """The channel is closed; `reason` is None if the peer closed it between two requests."""
        ...

    def take_buffer(
        self, channel: "Channel", size_bytes: int, arrived_bytes: int
    ) -> bytearray | None:
        """A buffer for a frame, larger than its received part; None mutes the channel."""
        ...

    def grow_buffer(
        self, channel: "Channel", buffer: bytearray, filled_bytes: int, size_bytes: int
    ) -> bytearray | None:
        """A larger buffer with the same bytes, which replaces the old one; None mutes the
        channel."""
        ...

    def give_back(self, channel: "Channel", buffer: bytearray) -> None:
        """The frame in that buffer was processed or dropped."""
        ...

    def hold(self, channel: "Channel", size_bytes: int) -> None:
        """Count `size_bytes` for a request in progress; may close the channel."""
        ...

    def let_go(self, channel: "Channel") -> None:
        """The held request was answered."""
        ...

    def on_unsent(self, channel: "Channel", size_bytes: int) -> None:
        """`size_bytes` of answers wait in memory because the socket is full.

        Called again whenever the socket has taken some of them, finally with 0.
        """
        ...


class Channel(ClientFacts):
    """One client connection from accept to close. Used by its server's thread only.

    Invariant: at most one request is in progress, besides those whose answers are pending.
    Invariant: answers leave in request order.
    """

    __slots__ = (
        "_backlog",
        "_fill",
        "_held_until",
        "_interest",
        "_is_advance_deferred",
        "_is_incomplete",
        "_is_processing",
        "_out",
        "_output",
        "_owner",
        "_partial",
        "_partial_size",
        "_pending",
        "_transport",
        "answered",
        "arrived_ns",
        "holds_request",
        "is_open",
        "is_worked_on",
        "last_active_ms",
        "mute_reasons",
        "on_close",
        "payer",
        "pending_count",
    )

    def __init__(
        self, transport: Transport, peer: str, listener_name: str, owner: ChannelOwner
    ) -> None:
        super().__init__(peer, listener_name, owner.max_frame_bytes)
        self._transport = transport
        self._owner = owner
        self.mute_reasons = 0
        """Bits of `MuteReason`."""
        self.is_open = True
        """False once the socket is closed."""
        self.last_active_ms = owner.loop.now_ms
        self.on_close: Callable[[], None] | None = None
        """Called at close: removes what waits for this channel, in the purgatory or for a timer."""
        self.payer = Payer()
        """What the thread's work for this connection takes of its time."""
        self.holds_request = False
        """The request in progress is counted (`hold`)."""
        self.is_worked_on = False
        """The counted request waits for something other than the peer."""
        self.arrived_ns = owner.loop.turn_ns
        """Monotonic time at which bytes last came, or were taken up again after a wait."""
        self._output = Output(owner.loop.monotonic_ns)
        self._out = self._output.buffers
        self.answered = self._output.answered
        """Called when answers are sent (`Connection`)."""
        self.pending_count = 0
        """Answers in `_pending`."""
        self._pending: PendingAnswers | None = None
        """Made when it is needed first."""
        self._held_until = -1
        """The next frame waits until the pending answers count for at most so many; -1: it does
        not wait for them."""
        self._is_advance_deferred = False
        self._backlog = b""
        self._partial: bytearray | None = None
        self._partial_size = 0
        self._fill = 0
        self._is_processing = False
        self._is_incomplete = False
        """The backlog is the beginning of one frame."""
        self._interest = READABLE
        owner.loop.watch(transport, READABLE, self._on_ready)

    # -- receive bytes, next request -----------------------------------------------------------

    def _on_ready(self, events: int) -> None:
        if not self.is_open:
            return  # closed earlier in this turn
        self._owner.loop.time.payer = self.payer
        try:
            if events & WRITABLE:
                self._advance()
            if events & READABLE and self._interest & READABLE:
                self._receive()
        except PeerError as error:
            self.end(str(error))
        except OSError as error:
            self._on_lost(error)

    def end(self, reason: str | None) -> None:
        """Close the channel after the earlier answers, sent as far as the socket takes them.

        Until all of them are given, nothing more is read.
        """
        if self.pending_count:
            self.mute_reasons |= MuteReason.CLOSING
            self.after_earlier(lambda: self.end(reason))
            self._update_interest()
            return
        with contextlib.suppress(OSError, PeerError):
            self._flush()
        self.close(reason)

    def _on_lost(self, error: OSError) -> None:
        # Many clients leave by a reset between two requests.
        in_request = (
            self._partial is not None or self._backlog or self.mute_reasons or self.pending_count
        )
        self.close(f"connection lost: {error.strerror or error}" if in_request else None)

    def _receive(self) -> None:
        loop = self._owner.loop
        self.last_active_ms = loop.now_ms
        self.arrived_ns = loop.turn_ns
        if self._partial is not None:
            self._receive_into_partial(self._partial)
            return
        owner = self._owner
        scratch = owner.scratch()
        kept = len(self._backlog)
        if kept:
            scratch[:kept] = self._backlog
        try:
            received = self._transport.receive_into(scratch[kept:])
        except (BlockingIOError, InterruptedError):
            return
        if received == 0:
            self.end(None if kept == 0 else "closed in the middle of a request")
            return
        if kept:
            owner.backlog_bytes -= kept
            self._backlog = b""
        self._process(scratch[: kept + received].toreadonly())
        self._advance()

    def _receive_into_partial(self, partial: bytearray) -> None:
        if self._fill == len(partial):
            grown = self._owner.grow_buffer(self, partial, self._fill, self._partial_size)
            if grown is None:
                self._update_interest()
                return
            self._partial = partial = grown
        try:
            room = memoryview(partial)[self._fill : self._partial_size]
            received = self._transport.receive_into(room)
        except (BlockingIOError, InterruptedError):
            return
        if not received:
            self.end("closed in the middle of a request")
            return
        self._fill += received
        if self._fill == self._partial_size:
            self._partial = None
            try:
                self._process_partial(memoryview(partial)[: self._partial_size].toreadonly())
            finally:
                self._owner.give_back(self, partial)
            self._advance()

    def _process(self, received: memoryview) -> None:
        """Hand over whole frames of `received`; keep the rest."""
        position = 0
        end = len(received)
        out = self._out
        counted = ahead_bytes = 0
        self._is_incomplete = False
        while (
            end - position >= 4
            and not self.mute_reasons
            and len(out) < BUFFERS_AHEAD_MAX
            and ahead_bytes < _AHEAD_MAX_BYTES
        ):
            size = _SIZE.unpack_from(received, position)[0]
            if size < 0 or size > self.max_frame_bytes:
                raise _size_refused(size, self)
            if self.pending_count and self._holds_back(received[position + 4 :]):
                break
            frame_end = position + 4 + size
            if frame_end > end:
                if self._begin_partial(size, received[position + 4 :]):
                    position = end
                break
            self.mute_reasons = _RESPONSE_PENDING
            self._is_processing = True
            try:
                self._owner.on_frame(self, received[position + 4 : frame_end])
            finally:
                self._is_processing = False
            position = frame_end
            if not self.is_open:
                return
            if position < end:
                while counted < len(out):
                    item = out[counted]
                    ahead_bytes += len(item) if isinstance(item, BYTES_TYPES) else 0
                    counted += 1
        if position < end:
            self._backlog = bytes(received[position:])
            self._owner.backlog_bytes += end - position

    def _holds_back(self, frame: memoryview) -> bool:
        """Whether the next frame, which begins with these bytes, waits for pending answers."""
        pending, owner = self._pending, self._owner
        if pending is None or len(frame) < 2:
            return False
        if not owner.may_go_ahead(self, frame):
            self._held_until = 0
        elif pending.is_full:
            self._held_until = pending.weight // 2
        elif owner.pending_weight >= PENDING_MAX_OF_ALL:
            self._held_until = 0
        else:
            return False
        return True

    def _begin_partial(self, size: int, arrived: memoryview) -> bool:
        """Give a frame its own buffer; False if its received part stays in the backlog."""
        self._transport.expect(size - len(arrived))
        if len(arrived) < BACKLOG_MAX_BYTES:
            self._is_incomplete = True
            return False
        partial = self._owner.take_buffer(self, size, len(arrived))
        if partial is None:
            return False
        self._fill = len(arrived)
        partial[: self._fill] = arrived
        self._partial = partial
        self._partial_size = size
        return True

    def _process_partial(self, frame: memoryview) -> None:
        self.mute_reasons |= _RESPONSE_PENDING
        self._is_processing = True
        try:
            self._owner.on_frame(self, frame)
        finally:
            self._is_processing = False

    def _advance(self) -> None:
        """Write, then continue with received requests, until either has to wait."""
        while self.is_open:
            if self._out:
                self._flush()
            if (
                self._out
                or self.mute_reasons
                or self._is_incomplete
                or self._held_until >= 0
                or len(self._backlog) < _SIZE.size
            ):
                break
            backlog, self._backlog = self._backlog, b""
            self._owner.backlog_bytes -= len(backlog)
            self._process(memoryview(backlog))
        self._update_interest()

    # -- send reply, bytes to write ------------------------------------------------------------

    def respond(self, buffers: "list[Outgoing] | None") -> None:
        """Answer the request in progress; None if it has no answer (acks=0)."""
        if not self.is_open:
            return
        assert buffers is None or not self.pending_count, "answered before earlier requests"
        self.on_close = None
        if self.holds_request:
            self.let_go()
        if buffers is not None:
            self._out.extend(buffers)
        self.mute_reasons &= ~_RESPONSE_PENDING
        if not self._is_processing:  # then answers are sent together afterwards
            self._advance_or_close()

    def go_on(self, weight: int) -> QueuedAnswer:
        """Continue with the next request; the answer to the one in progress is given later."""
        pending = self._pending
        if pending is None:
            pending = self._pending = PendingAnswers(self._on_first_given)
        on_close, self.on_close = self.on_close, None
        if self.holds_request:
            self.let_go()
        answer = pending.add(weight, self.arrived_ns, on_close)
        self.pending_count += 1
        self._owner.pending_weight += answer.weight
        self.mute_reasons &= ~_RESPONSE_PENDING
        if not self._is_processing:
            self._advance_later()
        return answer

    def after_earlier(self, callback: Callable[[], None]) -> None:
        """Call `callback` once no answer is pending; the request in progress is answered then."""
        pending = self._pending
        if pending is None or not self.pending_count:
            callback()
        else:
            pending.after = callback

    def _on_first_given(self) -> None:
        pending = self._pending
        assert pending is not None
        before = pending.weight
        self.pending_count -= pending.take_given(self._out, self.answered)
        self._owner.pending_weight += pending.weight - before
        if pending.weight <= self._held_until:
            self._held_until = -1
            self.arrived_ns = self._owner.loop.turn_ns
        if self.pending_count:
            self._advance_later()
            return
        after, pending.after = pending.after, None
        if after is not None:
            after()
        elif not self._is_processing:
            self._advance_or_close()

    def _advance_later(self) -> None:
        if not self._is_advance_deferred:
            self._is_advance_deferred = True
            self._owner.loop.defer(self._advance_deferred)

    def _advance_deferred(self) -> None:
        self._is_advance_deferred = False
        if self.is_open:
            self._advance_for_payer()

    def _advance_for_payer(self) -> None:
        time = self._owner.loop.time
        payer = time.switch(self.payer)
        self._advance_or_close()
        time.switch(payer)

    def _advance_or_close(self) -> None:
        try:
            self._advance()
        except PeerError as error:
            self.end(str(error))
        except OSError as error:
            self._on_lost(error)

    def hold(self, size_bytes: int, *, is_worked_on: bool = False) -> None:
        """Count the memory of the request in progress until it is answered."""
        self.holds_request = True
        self.is_worked_on = is_worked_on
        self._owner.hold(self, size_bytes)

    def let_go(self) -> None:
        """The request in progress holds no memory any more."""
        if self.holds_request:
            self.holds_request = self.is_worked_on = False
            self._owner.let_go(self)

    @property
    def kept_bytes(self) -> int:
        """Received bytes of requests that are not handed over yet."""
        return len(self._backlog) + (0 if self._partial is None else self._fill)

    @property
    def holds_deleted_file(self) -> bool:
        """Whether an unsent answer refers to a deleted file."""
        return bool(self._out) and holds_deleted_file(self._out)

    def arrived_bytes(self) -> int:
        """Bytes that the kernel has received and this channel has not read."""
        return arrived_bytes(self._transport.fileno())

    def take_arrived(self) -> bool:
        """Receive available bytes without an event of the loop (`Transport.expect`).

        Returns False if there are none or the channel is muted.
        """
        if self.mute_reasons or self.arrived_bytes() == 0:
            return False
        time = self._owner.loop.time
        payer = time.switch(self.payer)
        self._on_ready(READABLE)
        time.switch(payer)
        return True

    def mute(self, reason: int) -> None:
        """Stop reading for one more reason."""
        self.mute_reasons |= reason
        if not self._is_processing:
            self._update_interest()

    def unmute(self, reason: int) -> None:
        """Clear one reason; without any reason left, the channel continues with received
        requests."""
        if reason & self.mute_reasons and self.is_open:
            self.mute_reasons &= ~reason
            if not self.mute_reasons:
                self.arrived_ns = self._owner.loop.turn_ns
            self._advance_for_payer()

    def _flush(self) -> None:
        unsent_bytes = self._output.flush(self._transport)
        if unsent_bytes >= 0:
            self._owner.on_unsent(self, unsent_bytes)
        self.last_active_ms = self._owner.loop.now_ms

    # -- interest, close -----------------------------------------------------------------------

    def _update_interest(self) -> None:
        if not self.is_open:
            return
        # Unsent output also stops reading: a client that does not read gets no more answers.
        interest = WRITABLE if self._out else 0
        if not self.mute_reasons and not self._out and self._held_until < 0:
            interest |= READABLE
        if interest != self._interest:
            self._owner.loop.rewatch(self._transport, interest, self._on_ready)
            self._interest = interest

    def close(self, reason: str | None) -> None:
        """Close the socket; the server logs `reason` in one line, unless it is None."""
        if not self.is_open:
            return
        self._owner.loop.unwatch(self._transport)
        self.is_open = False
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        self._transport.close()
        pending, self._pending = self._pending, None
        if pending is not None:
            self._owner.pending_weight -= pending.weight
            self.pending_count = 0
            pending.drop(self.answered)
        self._output.drop()
        self._owner.backlog_bytes -= len(self._backlog)
        self._backlog = b""
        if self._partial is not None:
            self._owner.give_back(self, self._partial)
            self._partial = None
        if self.on_close is not None:
            self.on_close()
            self.on_close = None
        self._owner.loop.time.close(self.payer)
        self._owner.on_closed(self, reason)


def _size_refused(size: int, channel: Channel) -> PeerError:
    if size >> 16 == _TLS_HELLO:
        return PeerError("TLS on a plaintext listener")
    setting = "socket.request.max.bytes"
    if channel.login is not None:
        setting += ", before the login sasl.server.max.receive.size"
    return PeerError(
        f"request size {size} is not within 0..{channel.max_frame_bytes} bytes ({setting})"
    )
