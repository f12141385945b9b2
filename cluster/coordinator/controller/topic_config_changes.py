"""Tells the controller of topics whose configs have changed in the store, by whomever.

Other tools write there too, and announce their changes as Kafka's do.
"""

from collections.abc import Callable

from cluster.coordinator.cluster_store import ChangedTopics, ClusterStore, StoreSession


class TopicConfigChanges:
    """Covers one term of a controller. Owned by the broker's thread, except for `watch`.

    Invariant: a watch was set before the changes were last read, or they are being read again.
    """

    def __init__(
        self,
        store: StoreSession,
        is_current: Callable[[], bool],
        on_topics: Callable[[frozenset[str]], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """`is_current` says whether the term continues; afterwards nothing is reported."""
        self._store = store
        self._is_current = is_current
        self._on_topics = on_topics
        self._on_failed = on_failed
        self._last: int | None = None
        """The number of the last change that was read; None before `begin`."""
        self._has_changed = False

    def watch(self, store: ClusterStore) -> ChangedTopics:
        """On the store's thread, before all topics are loaded: find the last change so far."""
        return store.topics.changed_configs(None, self._on_change)

    def begin(self, found: ChangedTopics) -> None:
        """The topics are loaded: report the changes since the one that `watch` found."""
        self._last = found.last
        if self._has_changed:
            self._on_change()

    def _on_change(self) -> None:
        last = self._last
        if last is None:
            self._has_changed = True
            return
        if not self._is_current():
            return
        self._store.submit(
            lambda store: store.topics.changed_configs(last, self._on_change),
            self._on_found,
            self._on_failed,
        )

    def _on_found(self, found: ChangedTopics) -> None:
        self._last = found.last
        if found.names and self._is_current():
            self._on_topics(found.names)
