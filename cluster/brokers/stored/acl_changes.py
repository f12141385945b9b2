"""ACLs: follows the stored ones, applies them, and changes them for clients."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from cluster.brokers.stored.changes import DONE, make_changes
from cluster.brokers.stored.document_follower import ChangeFollower, FollowerGroup
from cluster.coordinator.cluster_store import AclNews, ClusterStore, StoredAcls, StoreSession
from cluster.model.acls import (
    AclBinding,
    AclEntry,
    AclFilter,
    PatternType,
    ResourcePattern,
)
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_NOTHING: Final = StoredAcls(frozenset())

AclOutcomes = Mapping[ResourcePattern, Outcome]
"""Whether the rules for each pattern were changed."""


class AclChanges:
    """One per broker with an authorizer, used by its thread."""

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        clock: Clock,
        apply: Callable[[Mapping[ResourcePattern, StoredAcls]], None],
    ) -> None:
        """`apply` gets the new rules for the patterns whose rules have changed."""
        self._store = store
        self._clock = clock
        self._apply = apply
        self._known: dict[ResourcePattern, StoredAcls] = {}
        self.follower = FollowerGroup(
            [
                self._follower(store, loop, each)
                for each in (PatternType.LITERAL, PatternType.PREFIXED)
            ]
        )

    def _follower(
        self, store: StoreSession, loop: EventLoop, pattern_type: PatternType
    ) -> ChangeFollower[AclNews]:
        return ChangeFollower(
            store,
            loop,
            f"the ACLs of {pattern_type.name.lower()} patterns",
            lambda stores, seen, on_change: stores.acls.load(pattern_type, seen, on_change),
            partial(self._on_news, pattern_type),
        )

    def _on_news(self, pattern_type: PatternType, news: AclNews) -> None:
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
                    "cannot read the ACLs of %s; they deny everything: %s",
                    pattern,
                    stored.problem,
                )
            if stored == _NOTHING:
                del self._known[pattern]
            else:
                self._known[pattern] = stored
        log.info("the ACLs of %d resource patterns have changed", len(changed))
        self._apply(changed)

    def stored(self) -> list[tuple[ResourcePattern, StoredAcls]]:
        """The rules for each pattern, as this broker has them now."""
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

    def add(self, bindings: Iterable[AclBinding], on_done: Callable[[AclOutcomes], None]) -> None:
        """Store rules; calls back when this broker applies them and the others are notified."""
        self._change(_by_pattern(bindings), _with, on_done)

    def remove(
        self, bindings: Iterable[AclBinding], on_done: Callable[[AclOutcomes], None]
    ) -> None:
        """Remove rules; calls back as `add` does."""
        self._change(_by_pattern(bindings), _without, on_done)

    def _change(
        self,
        entries: dict[ResourcePattern, set[AclEntry]],
        change: Callable[[Collection[AclEntry], frozenset[AclEntry]], frozenset[AclEntry]],
        on_done: Callable[[AclOutcomes], None],
    ) -> None:
        wall_ms = self._clock.wall_ms()
        make_changes(
            self._store,
            {
                pattern: partial(_change_stored, pattern, partial(change, own), wall_ms)
                for pattern, own in entries.items()
            },
            self._on_changed,
            on_done,
        )

    def _on_changed(self, pattern: ResourcePattern, stored: StoredAcls) -> Outcome:
        self._take({pattern: stored})
        if stored.problem is not None:
            return Outcome(ErrorCode.unknown_server_error, stored.problem)
        return DONE


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
