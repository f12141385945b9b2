"""Drives the logins of a broker's connections: answers, deadlines and sessions.

On a listener with SASL, each new connection has a pending login that handles its requests. After a
successful login the connection has no further cost. A session that may expire has a timer, after
which the connection can only log in again (KIP-368).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.connection import Connection, MuteReason
from cluster.brokers.network.purgatory import Cancellable
from cluster.brokers.security.login import Login, MechanismRules, Reaction, Session
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import PeerError
from cluster.model.security import ANONYMOUS
from cluster.protocol.api import ApiKey
from cluster.protocol.framing import parse_request_header

log = logging.getLogger(__name__)

LOGIN_TIMEOUT_MS: Final = 30_000
"""A connection that has not logged in within this time is closed."""
_AGAIN_AFTER_MS: Final = 1_000
"""The least time between two logins of a connection (Kafka:
`KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS`).
"""


class ListenerLogins(NamedTuple):
    """How clients of one listener log in."""

    mechanisms: Mapping[str, MechanismRules]
    max_receive_bytes: int
    """A larger request before the login closes the connection (`sasl.server.max.receive.size`)."""


class Timers(Protocol):
    """The part of the event loop that is used here."""

    now_ms: MonotonicMs

    def call_after(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Run `callback` after a while."""
        ...


class Logins:
    """One per broker, used by its thread only."""

    def __init__(
        self,
        listeners: Mapping[str, ListenerLogins],
        timers: Timers,
        wall_ms: Callable[[], WallMs],
        failure_delay_ms: Callable[[], int],
        counters: BrokerCounters | None,
    ) -> None:
        """`listeners` are those whose clients log in by SASL. `failure_delay_ms`: the delay before
        the answer to a failed login.
        """
        self._timers = timers
        self._wall_ms = wall_ms
        self._failure_delay_ms = failure_delay_ms
        self._counters = counters
        self._listeners = listeners

    def replace_listeners(self, listeners: Mapping[str, ListenerLogins]) -> None:
        """Use other options for later logins, after a change of the settings."""
        self._listeners = listeners

    # -- starting a login --------------------------------------------------------------------------

    def on_connected(self, channel: Connection) -> None:
        """A connection was accepted; if its listener requires it, the client has to log in
        first.
        """
        listener = self._listeners.get(channel.listener_name)
        if listener is None:
            return
        full_bytes = channel.max_frame_bytes
        channel.max_frame_bytes = min(full_bytes, listener.max_receive_bytes)
        channel.login = _Attempt(self, Login(listener.mechanisms), full_bytes)
        self._set_time_limit(channel)

    def log_in_again(self, channel: Connection, frame: memoryview) -> bool:
        """Handle the SaslHandshake of a connection that has logged in; False if it may not log in
        again.
        """
        listener = self._listeners.get(channel.listener_name)
        past: _PastLogin | None = channel.session
        if past is None or past.session.lifetime_ms is None or listener is None:
            return False
        now_ms = self._timers.now_ms
        if past.began_again_ms is not None and now_ms - past.began_again_ms < _AGAIN_AFTER_MS:
            return False
        past.began_again_ms = now_ms
        channel.login = _Attempt(
            self, Login(listener.mechanisms, past.session), channel.max_frame_bytes
        )
        self._set_time_limit(channel)
        return channel.login.on_frame(channel, frame)

    def may_have_tokens(self, channel: Connection) -> bool:
        """Whether a client has authenticated by something other than a delegation token
        (KIP-48).
        """
        past: _PastLogin | None = channel.session
        has_token = past is not None and past.session.has_token
        return not has_token and channel.principal != ANONYMOUS

    # -- handling a request ------------------------------------------------------------------------

    def take(self, channel: Connection, login: Login, frame: memoryview) -> Reaction | None:
        """Pass a request to a login and send its answer; None passes the request on."""
        try:
            reaction = login.on_frame(frame, self._wall_ms())
        except (
            PeerError
        ) as error:  # this failure is delayed as well (Kafka: `IllegalSaslStateException`)
            reaction = Reaction(None, failure=str(error))
        if reaction is None:
            return None
        if reaction.failure is not None:
            self._fail(channel, login, reaction.answer, reaction.failure)
        else:
            if reaction.session is not None:
                self._succeed(channel, login, reaction.session)
            channel.respond([reaction.answer] if reaction.answer is not None else None)
        return reaction

    def _succeed(self, channel: Connection, login: Login, session: Session) -> None:
        _cancel_deadline(channel)
        past: _PastLogin | None = channel.session
        began_again_ms = None if past is None else past.began_again_ms
        channel.login = None
        channel.session = _PastLogin(session, began_again_ms)
        channel.principal = session.user
        channel.routes.clear()  # cached routes contain the accounts of the previous user
        if session.lifetime_ms is not None:
            channel.deadline = self._timers.call_after(
                session.lifetime_ms, lambda: self._expire(channel)
            )
        counters = self._counters
        if counters is not None:
            if login.is_reauthentication:
                counters.reauthentications += 1
            else:
                counters.authentications += 1

    def _fail(self, channel: Connection, login: Login, answer: bytes | None, reason: str) -> None:
        """Answer after a delay, then close the connection; nothing more is read meanwhile."""
        self._count_failure(login)

        def end() -> None:
            channel.mute(MuteReason.CLOSING)
            if answer is not None:
                channel.respond([answer])
            channel.close(reason)

        _cancel_deadline(channel)
        channel.deadline = self._timers.call_after(self._failure_delay_ms(), end)

    def _count_failure(self, login: Login) -> None:
        counters = self._counters
        if counters is not None:
            if login.is_reauthentication:
                counters.failed_reauthentications += 1
            else:
                counters.failed_authentications += 1

    # -- deadlines ---------------------------------------------------------------------------------

    def _set_time_limit(self, channel: Connection) -> None:
        def end() -> None:
            channel.close(f"it has not logged in within {LOGIN_TIMEOUT_MS // 1_000} s")

        _cancel_deadline(channel)
        channel.deadline = self._timers.call_after(LOGIN_TIMEOUT_MS, end)

    def _expire(self, channel: Connection) -> None:
        channel.deadline = None
        channel.login = _Expired(self)

    def count_expired(self) -> None:
        """Count a connection that is closed because its session has expired."""
        if self._counters is not None:
            self._counters.expired_connections += 1


class _PastLogin:
    """The state of a connection that has logged in."""

    __slots__ = ("began_again_ms", "session")

    def __init__(self, session: Session, began_again_ms: MonotonicMs | None) -> None:
        self.session = session
        self.began_again_ms = began_again_ms


class _Attempt:
    """Handles the requests of a connection while it logs in."""

    __slots__ = ("_full_bytes", "_login", "_logins")

    def __init__(self, logins: Logins, login: Login, full_bytes: int) -> None:
        """`full_bytes`: the maximal size of requests after the login."""
        self._logins = logins
        self._login = login
        self._full_bytes = full_bytes

    def on_frame(self, channel: Connection, frame: memoryview) -> bool:
        reaction = self._logins.take(channel, self._login, frame)
        if reaction is None:
            return False
        if reaction.session is not None:
            channel.max_frame_bytes = self._full_bytes
        return True


class _Expired:
    """Handles the next request of a connection whose session has expired."""

    __slots__ = ("_logins",)

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def on_frame(self, channel: Connection, frame: memoryview) -> bool:
        is_handshake = parse_request_header(frame).api_key == ApiKey.SASL_HANDSHAKE
        if is_handshake and self._logins.log_in_again(channel, frame):
            return True
        self._logins.count_expired()
        raise PeerError("the session has expired, and the client has not logged in again")


def _cancel_deadline(channel: Connection) -> None:
    if channel.deadline is not None:
        channel.deadline.cancel()
        channel.deadline = None
