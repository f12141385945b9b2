"""Keeps a broker's copy of what the store has of one kind: loaded anew whenever that changes, or
brought up to date by the change nodes that name what has changed.
"""

import logging
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from cluster.coordinator.cluster_store import ClusterStore, StoreSession
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

T = TypeVar("T")


class HasSeen(Protocol):
    """What was read, and up to which change."""

    @property
    def seen(self) -> frozenset[str]:
        """The change nodes that were there."""
        ...


News = TypeVar("News", bound=HasSeen)

_RETRY_MS: Final = 500


class StoredCopy(Generic[T]):
    """Used by the broker's thread; the store's operations run on its own.

    Invariant: while the session lives, a watch is set that was set before the copy was read, or it
    is being read again.
    """

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        what: str,
        load: Callable[[ClusterStore, Callable[[], None]], T],
        apply: Callable[[T], None],
    ) -> None:
        """`load` reads it and has its second argument called at the next change; `apply` gets what
        was read. `what` names it in the log.
        """
        self._store = store
        self._loop = loop
        self._what = what
        self._load = load
        self._apply = apply
        self._is_loading = False
        self._has_changed = False

    def load_at_start(self) -> None:
        """Blocking: before the first client is served."""
        self._apply(self._store.call(lambda store: self._load(store, self.reload)))

    def reload(self) -> None:
        """Load it and watch for the next change; after a new session too."""
        if self._is_loading:
            self._has_changed = True
            return
        self._is_loading = True
        self._has_changed = False
        self._store.submit(
            lambda store: self._load(store, self.reload), self._on_loaded, self._on_failed
        )

    def _on_loaded(self, found: T) -> None:
        self._is_loading = False
        self._apply(found)
        if self._has_changed:
            self.reload()

    def _on_failed(self, error: Exception) -> None:
        self._is_loading = False
        log.warning("cannot load %s: %r", self._what, error)
        if self._has_changed:  # meanwhile there may be a new session, which nothing watches yet
            self.reload()
        else:
            self._loop.call_after(_RETRY_MS, self.reload)


class IncrementalCopy(Generic[News]):
    """All of it at first, then what change nodes name; all of it again after a new session, since
    changes may have been missed.
    """

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        what: str,
        load: Callable[[ClusterStore, frozenset[str] | None, Callable[[], None]], News],
        apply: Callable[[News], None],
    ) -> None:
        """`load` is given the change nodes that were seen, None to read everything; see
        `StoredCopy`.
        """
        self._load_news = load
        self._sessions = 1
        """How many there have been; changed by the broker's thread only."""
        self._seen: frozenset[str] | None = None
        self._seen_in_session = 0
        """The change nodes whose changes have been read, and when; of whichever thread loads."""
        self._copy: StoredCopy[News] = StoredCopy(store, loop, what, self._load, apply)
        self.load_at_start = self._copy.load_at_start

    def read_everything(self) -> None:
        """Not only what change nodes name."""
        self._sessions += 1
        self._copy.reload()

    def _load(self, store: ClusterStore, on_change: Callable[[], None]) -> News:
        session = self._sessions  # there may be another one before this has been read
        seen = self._seen if self._seen_in_session == session else None
        news = self._load_news(store, seen, on_change)
        self._seen, self._seen_in_session = news.seen, session
        return news
