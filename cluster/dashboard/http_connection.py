"""Connections to the dashboard that nobody uses make room for those that somebody does.

uvicorn closes a connection that is silent after an answer, but waits for ever for a first request,
for the rest of one, and for a browser that does not take its answer.
"""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX: Final = 400
"""More than watch at most (`live.WATCHERS_MAX`), and fewer than the files that a process may open
on every system. Of more, the one that has waited longest for a request is closed."""
REQUEST_S: Final = 20.0
"""A request has arrived whole so long after its connection, or after its first byte."""
STALLED_S: Final = 60.0
"""So long an answer waits for a browser to take some of it."""

_ARRIVED: Final = frozenset({h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR})


class HttpConnection(H11Protocol):
    """uvicorn's protocol with deadlines, and a limit that counts against idle connections."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._request_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self.idle_since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, at the cost of an idle one if there are too many."""
        super().connection_made(transport)
        self._watch_request()
        if len(self.connections) > CONNECTIONS_MAX:
            others = (each for each in self.connections if isinstance(each, HttpConnection))
            idle = [each for each in others if each.is_idle and each is not self]
            if idle:
                min(idle, key=lambda each: each.idle_since_s).end()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._watch_request()

    def on_response_complete(self) -> None:
        """The connection may be used again."""
        self.idle_since_s = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The browser does not take what it is sent."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALLED_S, self.end)

    def resume_writing(self) -> None:
        """The browser goes on."""
        super().resume_writing()
        _cancel(self._stall_timer)
        self._stall_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        _cancel(self._request_timer)
        _cancel(self._stall_timer)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return getattr(self.cycle, "response_complete", True)  # None before the first request

    def _watch_request(self) -> None:
        if self.conn.their_state in _ARRIVED:
            _cancel(self._request_timer)
            self._request_timer = None
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self.end)

    def end(self) -> None:
        """Close the connection at once."""
        self.connections.discard(self)  # which the loop would do only in its next turn
        self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
