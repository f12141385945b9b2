"""Keeps the authorizer's rules what the store says, and has them changed there.

Every broker watches the change nodes and reads the rules that these name: a change reaches all
brokers within a round trip to the store. A new session reads everything.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from cluster.brokers.security.authorizer import Authorizer
from cluster.coordinator.cluster_store import AclNews, ClusterStore, StoredAcls, StoreSession
from cluster.coordinator.stored_copy import IncrementalCopy
from cluster.model.acls import (
    AclBinding,
    AclEntry,
    AclFilter,
    PatternType,
    ResourcePattern,
)
from cluster.model.clocks import WallMs
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_NOTHING: Final = StoredAcls(frozenset())

Failures = dict[ResourcePattern, Exception]
"""Why the rules for a pattern were not changed."""


class UnreadableAcls(Exception):
    """Rules are not changed, since what is stored for their pattern cannot be read."""


class AclChanges:
    """One per broker with an authorizer, used by its thread; the store's operations run on its own.

    The rules for literal and for prefixed patterns are two copies, as `IncrementalCopy` has it.
    """

    def __init__(
        self, store: StoreSession, loop: EventLoop, clock: Clock, authorizer: Authorizer
    ) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._known: dict[ResourcePattern, StoredAcls] = {}
        self._copies = [
            IncrementalCopy(
                store,
                loop,
                f"the ACLs of {pattern_type.name.lower()} patterns",
                partial(_load, pattern_type),
                partial(self._apply, pattern_type),
            )
            for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        ]

    def load_at_start(self) -> None:
        """Blocking: before the first client is served."""
        for copy in self._copies:
            copy.load_at_start()

    def on_new_session(self) -> None:
        """Read everything: changes may have been missed."""
        for copy in self._copies:
            copy.read_everything()

    def _apply(self, pattern_type: PatternType, news: AclNews) -> None:
        acls = news.acls
        if news.is_whole:
            gone = {p for p in self._known if p.pattern_type is pattern_type} - acls.keys()
            acls = acls | dict.fromkeys(gone, _NOTHING)
        self._take(acls)

    def _take(self, acls: dict[ResourcePattern, StoredAcls]) -> None:
        changed = {
            pattern: stored
            for pattern, stored in acls.items()
            if stored != self._known.get(pattern, _NOTHING)
        }
        if not changed:
            return
        for pattern, stored in changed.items():
            if stored.problem is not None:
                log.error(
                    "ACLs of %s cannot be read, which denies everything: %s",
                    pattern,
                    stored.problem,
                )
            if stored == _NOTHING:
                del self._known[pattern]
            else:
                self._known[pattern] = stored
        log.info("ACLs of %d resource patterns have changed", len(changed))
        self._authorizer.take_rules(changed)

    # -- asked by clients --------------------------------------------------------------------------

    def stored(self) -> list[tuple[ResourcePattern, StoredAcls]]:
        """All rules as this broker has them now, by pattern."""
        return list(self._known.items())

    def find(self, wanted: AclFilter) -> list[AclBinding]:
        """The rules that a filter selects, as this broker has them."""
        return [
            AclBinding(pattern, entry)
            for pattern, stored in self.stored()
            if wanted.selects_pattern(pattern)
            for entry in sorted(stored.entries)
            if wanted.selects_entry(entry)
        ]

    def add(self, bindings: Iterable[AclBinding], on_done: Callable[[Failures], None]) -> None:
        """Store rules; calls back when this broker applies them, and the others are notified."""
        self._change(_by_pattern(bindings), _with, on_done)

    def remove(self, bindings: Iterable[AclBinding], on_done: Callable[[Failures], None]) -> None:
        """Remove rules, as `add`."""
        self._change(_by_pattern(bindings), _without, on_done)

    def _change(
        self,
        entries: dict[ResourcePattern, set[AclEntry]],
        change: Callable[[Collection[AclEntry], frozenset[AclEntry]], frozenset[AclEntry]],
        on_done: Callable[[Failures], None],
    ) -> None:
        wall_ms = self._clock.wall_ms()
        failures: Failures = {}
        waiting = set(entries)

        def end(pattern: ResourcePattern) -> None:
            waiting.discard(pattern)
            if not waiting:
                on_done(failures)

        def on_changed(pattern: ResourcePattern, stored: StoredAcls) -> None:
            if stored.problem is not None:
                failures[pattern] = UnreadableAcls(stored.problem)
            self._take({pattern: stored})
            end(pattern)

        def on_failed(pattern: ResourcePattern, error: Exception) -> None:
            failures[pattern] = error
            end(pattern)

        if not waiting:
            on_done(failures)
        for pattern, own in entries.items():
            operation = partial(_change_stored, pattern, partial(change, own), wall_ms)
            self._store.submit(operation, partial(on_changed, pattern), partial(on_failed, pattern))


def _load(
    pattern_type: PatternType,
    store: ClusterStore,
    seen: frozenset[str] | None,
    on_change: Callable[[], None],
) -> AclNews:
    return store.acls.load(pattern_type, seen, on_change)


def _change_stored(
    pattern: ResourcePattern,
    change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
    wall_ms: WallMs,
    store: ClusterStore,
) -> StoredAcls:
    return store.acls.change(pattern, change, wall_ms)


def _by_pattern(bindings: Iterable[AclBinding]) -> dict[ResourcePattern, set[AclEntry]]:
    found: dict[ResourcePattern, set[AclEntry]] = {}
    for pattern, entry in bindings:
        found.setdefault(pattern, set()).add(entry)
    return found


def _with(own: Collection[AclEntry], stored: frozenset[AclEntry]) -> frozenset[AclEntry]:
    return stored | set(own)


def _without(own: Collection[AclEntry], stored: frozenset[AclEntry]) -> frozenset[AclEntry]:
    return stored - set(own)
