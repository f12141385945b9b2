"""Follows documents of the store: every broker applies them as they are stored.

A follower loads its documents when the broker starts, watches them, and loads them again after each
change and in each new session. So a change reaches all brokers within a round trip to the store.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from cluster.brokers.stored.changes import DONE, Changes, K, make_changes
from cluster.coordinator.cluster_store import (
    RETRY_MS,
    ClusterStore,
    OnChange,
    StoreSession,
    outcome_of,
)
from cluster.model.plan import Outcome
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

T = TypeVar("T")


class Follower(Protocol):
    """What a broker calls of everything that follows documents."""

    def load_at_start(self) -> None:
        """Load and apply the documents; blocks. Before the first client is served."""
        ...

    def on_new_session(self) -> None:
        """Load the documents again and watch them: watches end with their session."""
        ...


class DocumentFollower(Generic[T]):
    """Used by the broker's thread; the store's operations run on the store's.

    Invariant: while the session lives, a watch is set that was set before the documents were read,
    or they are being read again.
    """

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        what: str,
        load: Callable[[ClusterStore, OnChange | None], T],
        apply: Callable[[T], None],
    ) -> None:
        """`load` reads the documents and has its second argument called at the next change.
        `what` names the documents in the log.
        """
        self._store = store
        self._loop = loop
        self._what = what
        self._load = load
        self._apply = apply
        self._is_loading = False
        self._has_changed = False

    def load_at_start(self) -> None:
        self._apply(self._store.call(lambda store: self._load(store, self._reload)))

    def on_new_session(self) -> None:
        self._reload()

    def read(self, on_done: Callable[[T], None], on_failed: Callable[[Exception], None]) -> None:
        """Read the documents as they are stored now, and apply nothing."""
        self._store.submit(lambda store: self._load(store, None), on_done, on_failed)

    def refresh(self, on_done: Callable[[Outcome], None]) -> None:
        """Apply what is stored now, then call back."""

        def on_read(found: T) -> None:
            self._apply(found)
            on_done(DONE)

        self.read(on_read, lambda error: on_done(outcome_of(error)))

    def change(
        self, changes: Changes[K, None], on_done: Callable[[dict[K, Outcome]], None]
    ) -> None:
        """Make changes as `make_changes` does; this broker applies them before `on_done`."""
        if not changes:
            on_done({})
            return
        make_changes(
            self._store,
            changes,
            lambda _key, _result: DONE,
            lambda outcomes: self.refresh(lambda _: on_done(outcomes)),
        )

    def _reload(self) -> None:
        if self._is_loading:
            self._has_changed = True
            return
        self._is_loading = True
        self._has_changed = False
        self._store.submit(
            lambda store: self._load(store, self._reload), self._on_loaded, self._on_failed
        )

    def _on_loaded(self, found: T) -> None:
        self._is_loading = False
        self._apply(found)
        if self._has_changed:
            self._reload()

    def _on_failed(self, error: Exception) -> None:
        self._is_loading = False
        log.warning("cannot load %s: %r", self._what, error)
        if self._has_changed:  # there may be a new session, in which nothing is watched yet
            self._reload()
        else:
            self._loop.call_after(RETRY_MS, self._reload)


class HasSeen(Protocol):
    """Documents, and the last changes that they include."""

    @property
    def seen(self) -> frozenset[str]:
        """The change nodes that existed when the documents were read."""
        ...


News = TypeVar("News", bound=HasSeen)


class ChangeFollower(DocumentFollower[News]):
    """Loads all documents once in a session, then only those that new change nodes name."""

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        what: str,
        load: Callable[[ClusterStore, frozenset[str] | None, OnChange | None], News],
        apply: Callable[[News], None],
    ) -> None:
        """`load` is given the change nodes that were seen, or None to read everything."""
        super().__init__(store, loop, what, self._load_news, apply)
        self._load_changed = load
        self._session = 1
        """The number of the present session; written by the broker's thread only."""
        self._seen: frozenset[str] | None = None
        self._seen_in_session = 0
        """Up to which change, and in which session, documents were read; written by loads only."""

    def on_new_session(self) -> None:
        """Changes may have been missed between the two sessions."""
        self._session += 1
        super().on_new_session()

    def _load_news(self, store: ClusterStore, on_change: OnChange | None) -> News:
        if on_change is None:  # a single read, after which changes must still be found
            return self._load_changed(store, None, None)
        session = self._session  # another one may begin while this reads
        seen = self._seen if self._seen_in_session == session else None
        news = self._load_changed(store, seen, on_change)
        self._seen, self._seen_in_session = news.seen, session
        return news


class FollowerGroup:
    """Several followers as one."""

    def __init__(self, followers: Sequence[Follower]) -> None:
        self._followers = followers

    def load_at_start(self) -> None:
        for follower in self._followers:
            follower.load_at_start()

    def on_new_session(self) -> None:
        for follower in self._followers:
            follower.on_new_session()
