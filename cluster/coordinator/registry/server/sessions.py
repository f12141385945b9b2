"""Sessions: when each expires, and its connection. Pure; times are monotonic milliseconds.

A session is in one expiry bucket, a multiple of the tick, so that thousands of heartbeats cost a
dictionary lookup each and expiry checks whole buckets (ZooKeeper's ExpiryQueue).
"""

import hmac
from collections.abc import Iterator

from cluster.model.clocks import MonotonicMs, WallMs

ConnectionId = int


class Session:
    """One client's session.

    Invariant: `bucket_ms` is the bucket that holds its id. `connection_id` is None while the
    client is away; it may come back until its time is over.
    """

    __slots__ = ("bucket_ms", "connection_id", "password", "session_id", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, password: bytes) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.password = password
        self.bucket_ms = 0
        self.connection_id: ConnectionId | None = None


class SessionTable:
    """All sessions that have not ended.

    Invariant: a session expires at the first bucket at or after last heartbeat + timeout, never
    before it.
    """

    def __init__(self, tick_time_ms: int) -> None:
        self._tick_time_ms = tick_time_ms
        self._sessions: dict[int, Session] = {}
        self._buckets: dict[int, dict[int, None]] = {}
        self.highest_session_id = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def find(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    @property
    def smallest_timeout_ms(self) -> int:
        """The shortest timeout that is granted: two ticks."""
        return 2 * self._tick_time_ms

    @property
    def largest_timeout_ms(self) -> int:
        """The longest timeout that is granted: twenty ticks."""
        return 20 * self._tick_time_ms

    def negotiate_timeout(self, wished_ms: int) -> int:
        """The granted timeout: the requested one, limited to 2 to 20 ticks."""
        return min(max(wished_ms, self.smallest_timeout_ms), self.largest_timeout_ms)

    def choose_id(self, wall_ms: WallMs) -> int:
        """An id no session has had: server 1 in the top byte, then the time, and always rising.

        The top byte 0xFF is kept free, because it marks TTL nodes in ephemeralOwner.
        """
        by_time = 1 << 56 | (wall_ms << 16) & 0x00FF_FFFF_FFFF_FFFF
        return max(by_time, self.highest_session_id + 1)

    def open(
        self, session_id: int, timeout_ms: int, password: bytes, now_ms: MonotonicMs
    ) -> Session:
        """Add a session, whose timeout begins now."""
        session = Session(session_id, timeout_ms, password)
        self._sessions[session_id] = session
        self.highest_session_id = max(self.highest_session_id, session_id)
        self._enter_bucket(session, now_ms)
        return session

    def close(self, session_id: int) -> None:
        """Remove a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._leave_bucket(session)

    def attach(
        self,
        session_id: int,
        password: bytes,
        timeout_ms: int,
        connection_id: ConnectionId,
        now_ms: MonotonicMs,
    ) -> tuple[Session, ConnectionId | None] | None:
        """Attach a session to a connection; returns the session and its former connection, if any.

        None when there is no such session or the password is wrong; the client is not told which.
        """
        session = self._sessions.get(session_id)
        if session is None or not hmac.compare_digest(session.password, password):
            return None
        previous = session.connection_id
        session.connection_id = connection_id
        session.timeout_ms = timeout_ms
        self.touch(session, now_ms)
        return session, previous

    def detach(self, session_id: int, connection_id: ConnectionId) -> None:
        """The connection is closed; the session waits for its client, unless it has moved to
        another one.
        """
        session = self._sessions.get(session_id)
        if session is not None and session.connection_id == connection_id:
            session.connection_id = None

    def touch(self, session: Session, now_ms: MonotonicMs) -> None:
        """Restart the timeout, since the client has just sent something."""
        if self._bucket_for(session, now_ms) != session.bucket_ms:
            self._leave_bucket(session)
            self._enter_bucket(session, now_ms)

    def touch_all(self, now_ms: MonotonicMs) -> None:
        """Give every session its full time again: after a restart, or a pause of this process in
        which it could not have received heartbeats.
        """
        for session in self._sessions.values():
            self.touch(session, now_ms)

    def expired(self, now_ms: MonotonicMs) -> list[Session]:
        """Sessions that have expired; they stay in the table until they are closed."""
        due = sorted(bucket_ms for bucket_ms in self._buckets if bucket_ms <= now_ms)
        return [
            self._sessions[session_id]
            for bucket_ms in due
            for session_id in self._buckets[bucket_ms]
        ]

    def _bucket_for(self, session: Session, now_ms: MonotonicMs) -> int:
        return ((now_ms + session.timeout_ms) // self._tick_time_ms + 1) * self._tick_time_ms

    def _enter_bucket(self, session: Session, now_ms: MonotonicMs) -> None:
        session.bucket_ms = self._bucket_for(session, now_ms)
        self._buckets.setdefault(session.bucket_ms, {})[session.session_id] = None

    def _leave_bucket(self, session: Session) -> None:
        bucket = self._buckets[session.bucket_ms]
        del bucket[session.session_id]
        if not bucket:
            del self._buckets[session.bucket_ms]
