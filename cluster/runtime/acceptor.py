"""Accepts TCP connections on a loop, within limits, for brokers and the registry."""

import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from cluster.model.clocks import MonotonicMs
from cluster.model.errors import UserError
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import READABLE, EventLoop, Timer
from cluster.runtime.transport import PlainTransport, Transport

log = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
"""Pause when the process is out of descriptors: files may hold them, so a closing connection is not
enough to wait for."""
OUT_OF_MEANS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Accepting again at once would fail again. Other errors mean that the client has left already."""
_ACCEPTS_PER_TURN: Final = 64
CLOSED_LATER_MAX: Final = 1_000
"""Refused connections that are held up before they are closed; above this they are closed at
once."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address to listen on; port 0 takes a free one."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptOptions:
    """Limits (None: unlimited) with the names of their settings for the log, and socket buffer
    sizes (0: the system's default)."""

    max_connections: int | None = None
    max_connections_setting: str = ""
    max_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """By the listener's name, besides `max_connections` (Kafka: `ConnectionQuotas`)."""
    max_per_host: int | None = None
    max_per_host_setting: str = ""
    max_of_hosts: Mapping[str, int] = field(default_factory=dict)
    """By address, in place of `max_per_host`."""
    backlog: int
    send_buffer_bytes: int = 0
    receive_buffer_bytes: int = 0


class Accepted(NamedTuple):
    """A new connection: its transport, peer and listener."""

    transport: Transport
    host: str
    port: int
    listener_name: str
    principal: str | None = None
    """The principal of a client certificate."""


class SecuredConnection(NamedTuple):
    """A connection that is ready for use."""

    transport: Transport
    principal: str | None
    """The principal of the client's certificate; None without a certificate."""


class Securing(Protocol):
    """Prepares connections of a listener before use, such as by a TLS handshake."""

    def begin(
        self,
        connection: socket.socket,
        host: str,
        port: int,
        done: Callable[[SecuredConnection | None], None],
    ) -> None:
        """Take over a non-blocking connection.

        `done` is called in a later turn of the loop; with None if the connection was closed
        instead, which is logged.
        """
        ...


class AcceptRates(Protocol):
    """Limits on the rate of new connections, called for each of them (KIP-612)."""

    def close_after_ms(self, host: str, now_ms: MonotonicMs) -> int:
        """Admit a connection from this address (0), or return the delay before it is closed."""
        ...

    def pause_ms(self, listener: str, now_ms: MonotonicMs) -> tuple[int, int]:
        """Count an admitted connection; returns how long its listener and all listeners must
        pause."""
        ...


class ListeningSocket(Protocol):
    """A listening socket, or a test double."""

    def fileno(self) -> int:
        """The descriptor that the loop watches."""
        ...

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection; returns it and its address. Raises OSError."""
        ...

    def getsockname(self) -> Any: ...

    def close(self) -> None: ...


def listen(listener: Listener, options: AcceptOptions) -> ListeningSocket:
    """Open a non-blocking listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.receive_buffer_bytes:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        listening.bind((listener.host, listener.port))
        listening.listen(options.backlog)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


class Acceptor:
    """The listening sockets and the number of accepted connections.

    Lifecycle: `bind` each listener, `start`, `release` for each closed connection, `close`. Owned
    by the loop's thread.
    """

    def __init__(
        self,
        loop: EventLoop,
        options: AcceptOptions,
        listen: Callable[[Listener, AcceptOptions], ListeningSocket] = listen,
    ) -> None:
        self._loop = loop
        self._options = options
        self._listen = listen
        self._listening: dict[str, ListeningSocket] = {}
        self._securing: dict[str, Securing] = {}
        self._on_accepted: Callable[[Accepted], None] | None = None
        self.rates: AcceptRates | None = None
        """Set before `start` where connections may come too fast."""
        self._held: dict[str, Timer] = {}
        """Listeners that accept nothing for now since connections came too fast."""
        self._closed_later: dict[socket.socket, Timer] = {}
        self._full: set[str] = set()
        """Listeners that accept nothing for now since too many connections are open."""
        self._watched: set[str] = set()
        self._is_accepting = False
        self._per_host: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._open_count = 0

    def bind(self, listener: Listener, securing: Securing | None = None) -> int:
        """Listen without accepting yet; returns the port. Raises UserError if the address is taken.

        Connections are plain unless `securing` prepares them. They count from their accept on.
        """
        try:
            listening = self._listen(listener, self._options)
        except OSError as error:
            raise UserError(
                f"cannot listen on {listener.host}:{listener.port} for {listener.name}:"
                f" {error.strerror}"
            ) from error
        self._listening[listener.name] = listening
        if securing is not None:
            self._securing[listener.name] = securing
        port: int = listening.getsockname()[1]
        return port

    def start(self, on_accepted: Callable[[Accepted], None]) -> None:
        """Begin to accept, starting with the listen queues."""
        self._on_accepted = on_accepted
        self._resume()

    def _resume(self) -> None:
        """Resume accepting after `_pause`; does nothing once closed."""
        if self._on_accepted is not None:
            self._is_accepting = True
            self._watch_all()

    def _pause(self) -> None:
        """Leave new connections in the listen queues."""
        self._is_accepting = False
        self._watch_all()

    def _watch_all(self) -> None:
        for name in self._listening:
            self._watch(name)

    def _watch(self, name: str) -> None:
        """Watch a listener, or leave its queue alone, according to the current limits."""
        is_right = self._is_accepting and name not in self._held and name not in self._full
        if is_right == (name in self._watched):
            return
        if is_right:
            self._watched.add(name)
            self._loop.watch(self._listening[name], READABLE, partial(self._accept, name))
        else:
            self._watched.discard(name)
            self._loop.unwatch(self._listening[name])

    def _hold(self, name: str, duration_ms: int) -> None:
        """Leave a listener's connections in its queue for a duration."""
        held = self._held.get(name)
        deadline_ms = self._loop.now_ms + duration_ms
        if held is not None:
            if held.deadline_ms >= deadline_ms:
                return
            held.cancel()
        self._held[name] = self._loop.call_at(deadline_ms, partial(self._go_on, name))
        self._watch(name)

    def _go_on(self, name: str) -> None:
        del self._held[name]
        self._watch(name)

    def change_limits(
        self,
        max_connections: int | None,
        max_per_host: int | None,
        max_of_hosts: Mapping[str, int] | None = None,
        max_of_listeners: Mapping[str, int] | None = None,
    ) -> None:
        """Change the limits for new connections; None means no limit. Open connections stay."""
        self._options = replace(
            self._options,
            max_connections=max_connections,
            max_per_host=max_per_host,
            max_of_hosts=max_of_hosts or {},
            max_of_listeners=max_of_listeners or {},
        )
        self._let_in_again()

    def release(self, host: str, listener_name: str) -> None:
        """A connection from that host was closed, which makes room for another one."""
        self._open_count -= 1
        self._per_listener[listener_name] -= 1
        self._per_host[host] -= 1
        if self._per_host[host] <= 0:
            del self._per_host[host]
        if self._full:
            self._let_in_again()

    def _let_in_again(self) -> None:
        """Watch the listeners that are no longer full."""
        for name in [name for name in self._full if self._fullness(name) is None]:
            self._full.discard(name)
            self._watch(name)

    def close(self) -> None:
        """Close the listening sockets; connections belong to their owners."""
        self._pause()
        self._on_accepted = None  # closing a connection must not restart accepting
        for timer in (*self._held.values(), *self._closed_later.values()):
            timer.cancel()
        for connection in self._closed_later:
            connection.close()
        self._closed_later.clear()
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()

    def _fullness(self, name: str) -> tuple[int, str] | None:
        """The number of open connections and the setting that limits them; None below the limit."""
        options = self._options
        setting = options.max_connections_setting
        limit, own_limit = options.max_connections, options.max_of_listeners.get(name)
        if limit is not None and self._open_count >= limit:
            return self._open_count, setting
        if own_limit is not None and self._per_listener[name] >= own_limit:
            return self._per_listener[name], f"listener.name.{name.lower()}.{setting}"
        return None

    def _accept(self, listener_name: str, _events: int) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            fullness = self._fullness(listener_name)
            if fullness is not None:
                log.warning("not accepting new connections for now: %d are open (%s)", *fullness)
                self._full.add(listener_name)
                self._watch(listener_name)
                return
            try:
                connection, address = self._listening[listener_name].accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_MEANS:
                    continue
                # Serve the existing connections and retry.
                log.warning("cannot accept connections for now: %s", error.strerror)
                self._pause()
                self._loop.call_after(RETRY_MS, self._resume)
                return
            self._admit(connection, address[0], address[1], listener_name)
            if listener_name in self._held:
                return

    def _admit(self, connection: socket.socket, host: str, port: int, listener_name: str) -> None:
        options = self._options
        now_ms = self._loop.now_ms
        close_after_ms = 0 if self.rates is None else self.rates.close_after_ms(host, now_ms)
        if close_after_ms:
            self._close_later(connection, host, port, close_after_ms)
            return
        limit = options.max_of_hosts.get(host, options.max_per_host)
        if limit is not None and self._per_host[host] >= limit:
            log.warning(
                "refused connection from %s:%d: %d are open from that address (%s)",
                host,
                port,
                self._per_host[host],
                options.max_per_host_setting,
                extra=of_peer(host),
            )
            connection.close()
            return
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if options.send_buffer_bytes:
                connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes
                )
        except OSError:  # macOS refuses options of a socket whose client has left
            connection.close()
            return
        self._open_count += 1
        self._per_listener[listener_name] += 1
        self._per_host[host] += 1
        if self.rates is not None:
            own_ms, all_ms = self.rates.pause_ms(listener_name, now_ms)
            if own_ms:
                self._hold(listener_name, own_ms)
            if all_ms:
                for name in self._listening:
                    self._hold(name, all_ms)
        securing = self._securing.get(listener_name)
        if securing is None:
            assert self._on_accepted is not None
            self._on_accepted(Accepted(PlainTransport(connection), host, port, listener_name))
        else:
            securing.begin(
                connection, host, port, partial(self._on_secured, host, port, listener_name)
            )

    def _close_later(self, connection: socket.socket, host: str, port: int, delay_ms: int) -> None:
        """Close it later without reading, which slows a client that connects too fast."""
        log.warning(
            "refused connection from %s:%d: too many new connections per second from that address"
            " (connection_creation_rate)",
            host,
            port,
            extra=of_peer(host),
        )
        if len(self._closed_later) >= CLOSED_LATER_MAX:
            connection.close()
            return

        def close() -> None:
            del self._closed_later[connection]
            connection.close()

        self._closed_later[connection] = self._loop.call_after(delay_ms, close)

    def _on_secured(
        self, host: str, port: int, listener_name: str, secured: SecuredConnection | None
    ) -> None:
        if secured is None:
            self.release(host, listener_name)
        elif self._on_accepted is None:  # closed meanwhile
            secured.transport.close()
        else:
            transport, principal = secured
            self._on_accepted(Accepted(transport, host, port, listener_name, principal))
