"""ZeroMQ sockets on the event loop: a ROUTER for the server side, DEALERs for the client side.

No other module imports zmq. A ZeroMQ descriptor is edge-triggered, and sends take edges too, so
after every send and every wake-up the socket is drained.

A context with keys encrypts all its connections and authenticates both ends (CurveZMQ). Each
context creates its own key pair and never stores it: the public key is part of the registered
endpoints, `tcp://HOST:PORT#KEY`, so the right to write registrations decides who is a broker.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from cluster.model.errors import UserError
from cluster.runtime.loop import READABLE, EventLoop
from cluster.runtime.receipt import Receipt
from cluster.runtime.zmq_admission import (
    HANDSHAKE_TIMEOUT_MS,
    ZAP_DOMAIN,
    ZAP_ENDPOINT,
    Admission,
    FindKeys,
)

log = logging.getLogger(__name__)

HIGH_WATER_MESSAGES: Final = 10_000
"""Bound of each socket's queues; sends to a peer that far behind fail."""
_REQUEST_BYTES_MAX: Final = 64 << 20
"""ZeroMQ allocates a frame when its size is announced; a larger announcement closes the connection.

What peers ask is far smaller; answers, which hold records, are as large as batches may be.
"""

# The methods below `zmq.Socket`, and plain ints: `send_multipart` takes five times as long.
_NO_WAIT: Final = int(zmq.NOBLOCK)
_MORE_FOLLOWS: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS: Final = int(zmq.EVENTS)
_HAS_INPUT: Final = int(zmq.POLLIN)
_send_part: Final = zmq.backend.Socket.send
_receive_part: Final = zmq.backend.Socket.recv

_KEY_MARK: Final = "#"
_KEY_DIGITS: Final = 64


def key_of(endpoint: str) -> bytes | None:
    """The public key in an endpoint; None if there is none."""
    digits = endpoint.partition(_KEY_MARK)[2]
    try:
        return bytes.fromhex(digits) if len(digits) == _KEY_DIGITS else None
    except ValueError:
        return None


class ZmqContext:
    """The ZeroMQ context of a process, created after the fork, with its own keys."""

    def __init__(self, find_keys: FindKeys | None = None) -> None:
        """`find_keys` returns the keys that routers admit; None admits every peer, without keys."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._receipts: dict[EventLoop, Receipt] = {}
        self._find_keys = find_keys
        public, secret = (b"", b"") if find_keys is None else zmq.curve_keypair()
        self.public_key: bytes = z85.decode(public)
        """Empty for a context without keys."""
        self._secret_key: bytes = z85.decode(secret)
        self._admission: _AdmissionSocket | None = None

    def receipt(self, loop: EventLoop) -> Receipt:
        """The `Receipt` that the sockets of a loop share."""
        if loop not in self._receipts:
            self._receipts[loop] = Receipt(time.monotonic_ns, lambda: loop.turn, loop.next_turn)
        return self._receipts[loop]

    def socket(self, kind: int) -> "zmq.Socket[bytes]":
        """A socket with this process's keys and bounded queues; it does not keep the process
        alive."""
        socket = self._context.socket(kind)
        if self.public_key:
            socket.setsockopt(zmq.CURVE_PUBLICKEY, self.public_key)
            socket.setsockopt(zmq.CURVE_SECRETKEY, self._secret_key)
            socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_TIMEOUT_MS)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, HIGH_WATER_MESSAGES)
        socket.setsockopt(zmq.RCVHWM, HIGH_WATER_MESSAGES)
        return socket

    def guard(self, loop: EventLoop, socket: "zmq.Socket[bytes]") -> str:
        """Admit only holders of known keys to a router that does not listen yet.

        Returns the key part of its endpoint.
        """
        if self._find_keys is None:
            return ""
        if self._admission is None:
            self._admission = _AdmissionSocket(
                loop,
                self.receipt(loop),
                self._context.socket(zmq.ROUTER),
                self.public_key,
                self._find_keys,
            )
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        return f"{_KEY_MARK}{self.public_key.hex()}"

    def router(
        self,
        loop: EventLoop,
        host: str,
        on_message: Callable[[bytes, list[bytes]], None],
        port: int = 0,
    ) -> "Router":
        return Router(self, loop, host, on_message, port)

    def dealer(
        self, loop: EventLoop, endpoint: str, on_message: Callable[[list[bytes]], None]
    ) -> "Dealer":
        return Dealer(self, loop, endpoint, on_message)

    def close(self) -> None:
        """Close the remaining sockets, without waiting for unsent messages."""
        self._context.destroy(linger=0)


class _LoopSocket:
    """The base of both ends: drains the socket into a callback on the loop's thread."""

    def __init__(
        self,
        loop: EventLoop,
        receipt: Receipt,
        socket: "zmq.Socket[bytes]",
        deliver: Callable[[list[bytes]], None],
    ) -> None:
        """`deliver` is called with the frames of each message."""
        self._loop = loop
        self._deliver = deliver
        self._receipt = receipt
        self._socket = socket
        self._drain_is_deferred = False
        self._is_delivering = False
        self.is_open = True
        self._descriptor: int = socket.getsockopt(zmq.FD)  # type: ignore[assignment]
        loop.watch(self._descriptor, READABLE, self._on_ready)
        self._drain_later()

    def fileno(self) -> int:
        """The descriptor that is readable after a socket event (ZMQ_FD)."""
        return self._descriptor

    def _send(self, frames: Sequence[Any]) -> bool:
        if not self.is_open:
            return False
        # Even a failed send processes received messages and so consumes their edge.
        if not self._is_delivering:  # else `receive` looks for more
            self._drain_later()
        socket = self._socket
        try:
            for frame in frames[:-1]:
                _send_part(socket, frame, _MORE_FOLLOWS)
            _send_part(socket, frames[-1], _NO_WAIT)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return False
        return True

    def _on_ready(self, _events: int) -> None:
        self._receipt.take(self)

    def _drain_later(self) -> None:
        if not self._drain_is_deferred:
            self._drain_is_deferred = True
            self._loop.defer(self._drain_deferred)

    def _drain_deferred(self) -> None:
        self._drain_is_deferred = False
        if self._has_input():
            self._receipt.take(self)

    def _has_input(self) -> bool:
        """Whether there are messages; if not, the descriptor reports the next one.

        This takes half the time of a `recv` that raises zmq.Again.
        """
        return self.is_open and int(self._socket.get(_EVENTS)) & _HAS_INPUT != 0

    def receive(self, until_ns: int) -> bool:
        if not self.is_open:
            return True
        try:
            frames = self._receive_message()
        except zmq.Again:
            return True  # the descriptor reports more than messages
        self._deliver_message(frames)
        while self._has_input():
            if time.monotonic_ns() >= until_ns:
                return False
            self._deliver_message(self._receive_message())
        return True

    def _deliver_message(self, frames: list[bytes]) -> None:
        self._is_delivering = True
        self._deliver(frames)
        self._is_delivering = False

    def _receive_message(self) -> list[bytes]:
        """Receive the frames of one message. Raises zmq.Again if there is none."""
        socket = self._socket
        part = _receive_part(socket, _NO_WAIT, False)
        frames = [part.bytes]
        while part.more:
            part = _receive_part(socket, _NO_WAIT, False)
            frames.append(part.bytes)
        return frames

    def close(self) -> None:
        """Stop watching and close the socket; unsent messages are dropped."""
        if self.is_open:
            self.is_open = False
            self._loop.unwatch(self._descriptor)
            self._socket.close()


class _AdmissionSocket(_LoopSocket):
    """The socket over which ZeroMQ asks whether a key may connect; see `Admission`."""

    def __init__(
        self,
        loop: EventLoop,
        receipt: Receipt,
        socket: "zmq.Socket[bytes]",
        own_key: bytes,
        find_keys: FindKeys,
    ) -> None:
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(ZAP_ENDPOINT)
        admission = Admission(loop, own_key, find_keys, self._send)
        super().__init__(loop, receipt, socket, admission.on_question)


class Router(_LoopSocket):
    """Binds, receives from many peers, and answers each by its identity."""

    def __init__(
        self,
        context: ZmqContext,
        loop: EventLoop,
        host: str,
        on_message: Callable[[bytes, list[bytes]], None],
        port: int = 0,
    ) -> None:
        """Listen on `host`; port 0 takes a free one. Raises UserError if that fails."""
        socket = context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.MAXMSGSIZE, _REQUEST_BYTES_MAX)
        key = context.guard(loop, socket)
        try:
            socket.bind(f"tcp://{host}:{port or '*'}")
        except zmq.ZMQError as error:
            socket.close()
            raise UserError(f"cannot listen on {host}:{port} for brokers: {error}") from error
        bound = bytes(socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode("ascii")
        port = int(bound.rpartition(":")[2])
        self.endpoint = f"tcp://{host}:{port}{key}"
        """Where peers connect, and the key that they expect there."""
        super().__init__(
            loop, context.receipt(loop), socket, lambda frames: on_message(frames[0], frames[1:])
        )

    def send(self, identity: bytes, frames: Sequence[Any]) -> bool:
        """Send to one peer; False if it is not connected or too far behind."""
        return self._send([identity, *frames])


class Dealer(_LoopSocket):
    """Connects to one router; messages are queued until it is reachable."""

    def __init__(
        self,
        context: ZmqContext,
        loop: EventLoop,
        endpoint: str,
        on_message: Callable[[list[bytes]], None],
    ) -> None:
        socket = context.socket(zmq.DEALER)
        # A dead peer's port may be given to a stranger, so reconnect slowly and not forever.
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        self.endpoint = endpoint
        self._monitor: _ConnectionMonitor | None = None
        try:
            address = endpoint
            if context.public_key:
                socket.setsockopt(zmq.CURVE_SERVERKEY, key_of(endpoint) or b"")
                address = endpoint.partition(_KEY_MARK)[0]
            socket.connect(address)
        except zmq.ZMQError as error:
            # A peer may register an invalid endpoint or key; then only that peer is unreachable.
            log.warning("cannot send to %r: %s", endpoint, error)
            self.is_open = False
            socket.close()
            return
        super().__init__(loop, context.receipt(loop), socket, on_message)

    def send(self, frames: Sequence[Any]) -> bool:
        """Send or queue a message; False if the queue is full or the endpoint is invalid."""
        return self._send(frames)

    def watch_connection(self, on_change: Callable[[bool], None]) -> None:
        """Call `on_change` from now on when the connection breaks (False) or is up (True).

        It breaks when the peer's process ends, or the network resets it; a paused peer keeps it.
        """
        if self.is_open and self._monitor is None:
            self._monitor = _ConnectionMonitor(self._loop, self._receipt, self._socket, on_change)

    def close(self) -> None:
        """Close, and stop calling `on_change`."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        super().close()


class _ConnectionMonitor(_LoopSocket):
    """The connection events of one socket (zmq_socket_monitor)."""

    def __init__(
        self,
        loop: EventLoop,
        receipt: Receipt,
        watched: "zmq.Socket[bytes]",
        on_change: Callable[[bool], None],
    ) -> None:
        self._watched = watched
        self._on_change = on_change
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        super().__init__(loop, receipt, watched.get_monitor_socket(events), self._on_event)

    def _on_event(self, frames: list[bytes]) -> None:
        event = parse_monitor_message(frames)["event"]
        self._on_change(event == zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def close(self) -> None:
        """Stop ZeroMQ's events before closing the socket that receives them."""
        if self.is_open:
            self._watched.disable_monitor()
        super().close()
