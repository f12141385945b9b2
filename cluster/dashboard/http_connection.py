"""Closes idle connections to the dashboard to make room for others.

uvicorn closes a connection that is silent after a response, but waits forever for a first request,
for the rest of one, and for a browser that does not read its response.
"""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX: Final = 400
"""More than may watch (`live.WATCHERS_MAX`), and fewer than the files that a process may open on
any system. Above it the connection that has waited longest for a request is closed."""
REQUEST_S: Final = 20.0
"""The time for a complete request, from the connection or from its first byte."""
STALLED_S: Final = 60.0
"""How long a response waits for a browser to read some of it."""

_ARRIVED: Final = frozenset({h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR})


class HttpConnection(H11Protocol):
    """uvicorn's protocol with deadlines, and a limit that counts idle connections last."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._request_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self.idle_since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, and close an idle one if there are too many."""
        super().connection_made(transport)
        self._watch_request()
        if len(self.connections) > CONNECTIONS_MAX:
            others = (each for each in self.connections if isinstance(each, HttpConnection))
            idle = [each for each in others if each.is_idle and each is not self]
            if idle:
                min(idle, key=lambda each: each.idle_since_s).end()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        super().data_received(data)
        self._watch_request()

    def on_response_complete(self) -> None:
        """Mark the connection as reusable."""
        self.idle_since_s = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Begin to wait for a browser that does not read."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALLED_S, self.end)

    def resume_writing(self) -> None:
        """End the wait for the browser."""
        super().resume_writing()
        _cancel(self._stall_timer)
        self._stall_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
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
        """Close the connection immediately."""
        self.connections.discard(self)  # the loop would do it only in its next turn
        self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
