"""What a loop waits for: epoll(7) on Linux, `selectors` elsewhere.

Events are epoll's bits on every system, so those of Linux need no conversion.
"""

import contextlib
import select
import selectors
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

READABLE: Final = 1
"""EPOLLIN."""
WRITABLE: Final = 4
"""EPOLLOUT."""
READABLE_AND_WRITABLE: Final = READABLE | WRITABLE

OnReady: TypeAlias = Callable[[int], None]


class Poller(Protocol):
    """The methods of `select.epoll` that are used."""

    def register(self, fd: int, events: int, /) -> None: ...

    def modify(self, fd: int, events: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, wait_s: float | None, /) -> list[tuple[int, int]]:
        """Wait for events, for None without limit; returns descriptors with their events.

        Other bits than READABLE and WRITABLE mean that the connection is lost.
        """
        ...

    def close(self) -> None: ...


class SelectorPoller:
    """The poller of systems without epoll."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.close = self._selector.close

    def register(self, fd: int, events: int, /) -> None:
        self._selector.register(fd, _for_selector(events))

    def modify(self, fd: int, events: int, /) -> None:
        self._selector.modify(fd, _for_selector(events))

    def unregister(self, fd: int, /) -> None:
        self._selector.unregister(fd)

    def poll(self, wait_s: float | None, /) -> list[tuple[int, int]]:
        return [(key.fd, _of_selector(events)) for key, events in self._selector.select(wait_s)]


def _for_selector(events: int) -> int:
    readable = selectors.EVENT_READ if events & READABLE else 0
    return readable | (selectors.EVENT_WRITE if events & WRITABLE else 0)


def _of_selector(events: int) -> int:
    readable = READABLE if events & selectors.EVENT_READ else 0
    return readable | (WRITABLE if events & selectors.EVENT_WRITE else 0)


def make_poller() -> Poller:
    """The best poller of this system."""
    return select.epoll() if hasattr(select, "epoll") else SelectorPoller()


class Watches:
    """The watched descriptors, and which of their events the poller reports.

    A request that waits mutes its connection, and most of these clients send nothing meanwhile. So
    the poller keeps reporting READABLE to whoever stops wanting it, until it does: `ignore` then
    ends that. A connection that stays silent costs no system call.
    """

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self.wanted: dict[int, tuple[int, OnReady]] = {}
        """By descriptor: the wanted events, and who wants them."""
        self._reported: dict[int, int] = {}
        """By descriptor: the events that the poller reports."""

    def add(self, fd: int, events: int, callback: OnReady) -> None:
        """Watch another descriptor."""
        if fd in self.wanted:
            raise KeyError(f"descriptor {fd} is already watched")
        self._poller.register(fd, events)
        self._reported[fd] = events
        self.wanted[fd] = (events, callback)

    def change(self, fd: int, events: int, callback: OnReady) -> None:
        """Change what is wanted of a watched descriptor; 0 for nothing at present."""
        reported = self._reported[fd]
        self.wanted[fd] = (events, callback)
        # Sockets are writable most of the time, so that is never reported in vain.
        if reported != events and reported != events | READABLE:
            self._report(fd, events)

    def remove(self, fd: int) -> None:
        """Forget a descriptor."""
        del self.wanted[fd]
        if self._reported.pop(fd):
            with contextlib.suppress(OSError):  # it is closed, and so unregistered
                self._poller.unregister(fd)

    def ignore(self, fd: int) -> None:
        """An event was reported that nobody wants: report it no more."""
        wanted = self.wanted[fd][0]
        if self._reported[fd] != wanted:
            self._report(fd, wanted)

    def _report(self, fd: int, events: int) -> None:
        """Without events it leaves the poller, as epoll reports lost connections in any case."""
        if not events:
            self._poller.unregister(fd)
        elif self._reported[fd]:
            self._poller.modify(fd, events)
        else:
            self._poller.register(fd, events)
        self._reported[fd] = events
