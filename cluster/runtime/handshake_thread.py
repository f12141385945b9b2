"""Runs the TLS handshakes of servers on a separate thread, because signing takes up to 1 ms.

The thread owns a socket until its handshake is done, and then hands it to the loop that accepted
it. A connection that has sent nothing takes no OpenSSL memory, and a handshake takes a bounded
amount. Each connection has a deadline, and the number of started handshakes is limited.
"""

import contextlib
import logging
import socket
import ssl
import threading
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from cluster.model.errors import PeerError
from cluster.runtime.clock import Clock
from cluster.runtime.heap_trim import HeapTrim
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import READABLE, WRITABLE, EventLoop, Timer
from cluster.runtime.tls_transport import reason_of

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_MS: Final = 10_000
"""A handshake that takes longer is given up (Kafka has no such limit but the idle time)."""
STARTED_MAX: Final = 1_024
"""Handshakes in progress that OpenSSL has memory for; above it the longest silent one gives way."""
_HELLO_MAX_BYTES: Final = 16 * 1024
"""OpenSSL takes memory for as many bytes as a client announces, up to 128 KiB; real ones have up
to 2 KiB."""
_RECEIVE_BYTES: Final = 16 * 1024
_BEGUN_PER_TURN: Final = 16
"""Handshakes that begin between two looks at those that go on: signing for each takes time."""
_STARTED_BYTES: Final = 46 * 1024
"""What OpenSSL takes for one in progress."""
_TRIM_CHECK_MS: Final = 2_000
_RECORD_HEADER_BYTES: Final = 5
_HANDSHAKE: Final = 22
_ALERT: Final = 21
_CLIENT_HELLO: Final = 1


class Secured(NamedTuple):
    """A connection after its handshake, for a `TlsTransport`."""

    connection: socket.socket
    stream: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    principal: str | None
    """Whom the client's certificate names; None where it showed none."""


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """The current TLS configuration of a listener; replaced when certificates change."""

    context: ssl.SSLContext
    principal_of: Callable[[bytes], str | None]
    """The user of a client's certificate (DER), on the thread. Raises PeerError to refuse it."""


class Endpoint(Protocol):
    """The listening address of a connection."""

    name: str
    """For the log."""

    def identity(self) -> TlsIdentity:
        """The current identity."""
        ...


@dataclass(slots=True, eq=False)
class _Handshake:
    connection: socket.socket
    host: str
    port: int
    endpoint: Endpoint
    done: Callable[[Secured | None], None]
    timer: Timer | None = None
    hello: bytearray | None = None
    """What came before OpenSSL has to do with it."""
    identity: TlsIdentity | None = None
    stream: ssl.SSLObject | None = None
    incoming: ssl.MemoryBIO | None = None
    outgoing: ssl.MemoryBIO | None = None
    is_done: bool = False
    unsent: bytes = b""
    is_writing: bool = False

    def fileno(self) -> int:
        return self.connection.fileno()


_OfHost = TypeVar("_OfHost", bound=MutableMapping[int, _Handshake])


class HandshakeThread:
    """The handshake thread.

    Lifecycle: `begin` any number of handshakes, from any one thread; `close`.

    Invariant: until `close`, `done` is posted exactly once for each handshake: with the parts of a
    transport, or with None after the connection was closed.
    """

    def __init__(
        self,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
        *,
        timeout_ms: int = HANDSHAKE_TIMEOUT_MS,
        started_max: int = STARTED_MAX,
    ) -> None:
        """`post` hands a call to the thread that receives the results."""
        self._post = post
        self._timeout_ms = timeout_ms
        self._started_max = started_max
        self._loop = EventLoop(clock)
        self._all: dict[int, _Handshake] = {}
        self._started: dict[str, OrderedDict[int, _Handshake]] = {}
        """Those that OpenSSL has memory for, by host, the longest silent one first."""
        self._started_count = 0
        self._arrived: OrderedDict[str, dict[int, _Handshake]] = OrderedDict()
        """Those that have sent something and are not looked at yet, in the order of that; the
        hosts in the order of their turns."""
        self._is_begin_posted = False
        self._started_peak = 0
        self._heap_trim = HeapTrim()
        self._loop.call_every(_TRIM_CHECK_MS, self._trim_heap)
        self._thread = threading.Thread(target=self._loop.run, name="tls-handshakes", daemon=True)
        self._thread.start()

    def begin(
        self,
        connection: socket.socket,
        host: str,
        port: int,
        endpoint: Endpoint,
        done: Callable[[Secured | None], None],
    ) -> None:
        """Take over a non-blocking connection; `done` is called through `post`."""
        handshake = _Handshake(connection, host, port, endpoint, done)
        self._loop.call_from_thread(partial(self._watch, handshake))

    def do(self, call: Callable[[], None]) -> None:
        """Run a call on the thread, such as reading key stores. It must not raise."""
        self._loop.call_from_thread(call)

    def do_every(self, period_ms: int, call: Callable[[], None]) -> None:
        """Run a call on the thread periodically."""
        self.do(lambda: self._loop.call_every(period_ms, call))

    def close(self) -> None:
        """Abort handshakes in progress and end the thread."""
        self._loop.stop()
        self._thread.join()
        for handshake in list(self._all.values()):
            handshake.connection.close()
        self._all.clear()
        self._started.clear()
        self._loop.close()

    # -- on the thread ---------------------------------------------------------------------------

    def _watch(self, handshake: _Handshake) -> None:
        fd = handshake.fileno()
        self._all[fd] = handshake
        handshake.timer = self._loop.call_after(
            self._timeout_ms,
            partial(self._fail, handshake, f"not done within {self._timeout_ms} ms"),
        )
        self._watch_for_hello(handshake)

    def _watch_for_hello(self, handshake: _Handshake) -> None:
        self._loop.watch(handshake, READABLE, partial(self._on_arrived, handshake))

    def _on_arrived(self, handshake: _Handshake, _events: int) -> None:
        """Handle the first bytes of a client that has no OpenSSL memory yet."""
        self._loop.unwatch(handshake)
        self._arrived.setdefault(handshake.host, {})[handshake.fileno()] = handshake
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_begin_posted and self._arrived:
            self._is_begin_posted = True
            self._loop.next_turn(self._begin_some)

    def _begin_some(self) -> None:
        """Start waiting handshakes, one host in turn, so that a flood from one does not block
        others.

        The newest handshake of a host starts first: under overload the oldest ones have probably
        been abandoned.
        """
        self._is_begin_posted = False
        for _ in range(_BEGUN_PER_TURN):
            if not self._arrived:
                return
            host, waiting = self._arrived.popitem(last=False)
            _, handshake = waiting.popitem()
            if waiting:
                self._arrived[host] = waiting
            self._watch_for_hello(handshake)
            self._on_ready(handshake, READABLE)
        self._begin_soon()

    def _on_ready(self, handshake: _Handshake, events: int) -> None:
        try:
            if events & WRITABLE:
                self._write(handshake)
            elif self._receive(handshake):
                self._advance(handshake)
            if handshake.unsent:
                self._wait_to_write(handshake)
            elif handshake.is_done:
                self._finish(handshake)
            elif handshake.is_writing:
                handshake.is_writing = False
                self._loop.rewatch(handshake, READABLE, partial(self._on_ready, handshake))
        except (BlockingIOError, InterruptedError):
            return
        except PeerError as error:
            self._fail(handshake, str(error))
        except ssl.SSLError as error:
            self._fail(handshake, reason_of(error))
        except OSError as error:
            self._fail(handshake, f"connection lost: {error.strerror or error}")

    def _receive(self, handshake: _Handshake) -> bool:
        """Receive bytes; returns whether OpenSSL has something to process."""
        data = handshake.connection.recv(_RECEIVE_BYTES)
        if not data:
            has_begun = handshake.stream is not None or handshake.hello
            raise PeerError("closed in the middle of the handshake" if has_begun else "")
        if handshake.incoming is not None:
            handshake.incoming.write(data)
            self._started[handshake.host].move_to_end(handshake.fileno())
            return True
        if handshake.hello is not None:
            data = bytes(handshake.hello + data)
        if not has_whole_hello(data):
            handshake.hello = bytearray(data)
            return False
        self._start(handshake, data)
        return True

    def _start(self, handshake: _Handshake, hello: bytes) -> None:
        if self._started_count >= self._started_max:
            of_busiest_host = max(self._started.values(), key=len)
            longest_silent = next(iter(of_busiest_host.values()))
            self._fail(longest_silent, "it gave way to others, too many were in progress")
        handshake.hello = None
        handshake.identity = handshake.endpoint.identity()
        handshake.incoming, handshake.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        handshake.stream = handshake.identity.context.wrap_bio(
            handshake.incoming, handshake.outgoing, server_side=True
        )
        handshake.incoming.write(hello)
        self._started.setdefault(handshake.host, OrderedDict())[handshake.fileno()] = handshake
        self._started_count += 1
        self._started_peak = max(self._started_peak, self._started_count)
        self._loop.rewatch(handshake, READABLE, partial(self._on_ready, handshake))

    def _advance(self, handshake: _Handshake) -> None:
        assert handshake.stream is not None
        assert handshake.outgoing is not None
        try:
            with contextlib.suppress(ssl.SSLWantReadError):
                handshake.stream.do_handshake()
                handshake.is_done = True
        except ssl.SSLError:
            with contextlib.suppress(OSError):  # send the alert as far as possible
                handshake.connection.send(handshake.outgoing.read())
            raise
        handshake.unsent += handshake.outgoing.read()
        if handshake.unsent:
            with contextlib.suppress(BlockingIOError, InterruptedError):
                self._write(handshake)

    def _write(self, handshake: _Handshake) -> None:
        sent = handshake.connection.send(handshake.unsent)
        handshake.unsent = handshake.unsent[sent:]

    def _wait_to_write(self, handshake: _Handshake) -> None:
        if not handshake.is_writing:
            handshake.is_writing = True
            self._loop.rewatch(handshake, WRITABLE, partial(self._on_ready, handshake))

    def _finish(self, handshake: _Handshake) -> None:
        stream, identity = handshake.stream, handshake.identity
        incoming, outgoing = handshake.incoming, handshake.outgoing
        assert stream is not None
        assert identity is not None
        assert incoming is not None
        assert outgoing is not None
        certificate = stream.getpeercert(binary_form=True)
        principal = None if certificate is None else identity.principal_of(certificate)
        self._forget(handshake)
        secured = Secured(handshake.connection, stream, incoming, outgoing, principal)
        self._post(partial(handshake.done, secured))

    def _fail(self, handshake: _Handshake, reason: str) -> None:
        """Close the connection and log the reason, unless it was closed before it sent anything."""
        self._forget(handshake)
        handshake.connection.close()
        if reason:
            log.warning(
                "TLS handshake with %s:%d on %s failed: %s",
                handshake.host,
                handshake.port,
                handshake.endpoint.name,
                reason,
                extra=of_peer(handshake.host),
            )
        self._post(partial(handshake.done, None))

    def _forget(self, handshake: _Handshake) -> None:
        fd = handshake.fileno()
        if not _remove(self._arrived, handshake):
            self._loop.unwatch(handshake)
        self._all.pop(fd)
        if _remove(self._started, handshake):
            self._started_count -= 1
        if handshake.timer is not None:
            handshake.timer.cancel()
        # An event of this turn may keep the handshake alive, so free its OpenSSL memory now.
        handshake.stream = handshake.incoming = handshake.outgoing = None

    def _trim_heap(self) -> None:
        peak, self._started_peak = self._started_peak, self._started_count
        self._heap_trim.look(peak * _STARTED_BYTES, self._started_count * _STARTED_BYTES)


def _remove(by_host: MutableMapping[str, _OfHost], handshake: _Handshake) -> bool:
    """Remove a handshake; returns whether it was there."""
    of_host = by_host.get(handshake.host)
    if of_host is None or of_host.pop(handshake.fileno(), None) is None:
        return False
    if not of_host:
        del by_host[handshake.host]
    return True


def has_whole_hello(data: bytes) -> bool:
    """Whether these first bytes of a connection include the whole ClientHello record. Pure.

    Raises PeerError, with the text for the log, for any other bytes.
    """
    if data[0] == _ALERT:
        raise PeerError("the client began with a TLS alert")
    if data[0] != _HANDSHAKE or data[1:2] not in (b"", b"\x03"):
        raise PeerError("plaintext on an SSL listener")
    if len(data) <= _RECORD_HEADER_BYTES + 3:
        return False
    record_bytes = int.from_bytes(data[3:5], "big")
    hello_bytes = int.from_bytes(data[6:9], "big")
    if data[5] != _CLIENT_HELLO or hello_bytes > _HELLO_MAX_BYTES or record_bytes > 2 * 16 * 1024:
        raise PeerError("its first message is not a TLS ClientHello")
    return len(data) >= _RECORD_HEADER_BYTES + min(record_bytes, _HELLO_MAX_BYTES)
