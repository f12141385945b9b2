"""Keeps this broker's quotas what the registry says, and has them changed there.

Every broker watches the change nodes and loads the quotas anew when one comes: a change reaches
all brokers within a round trip to the registry, without a restart.
"""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cluster.brokers.throttling.quota_events import OnQuotas
from cluster.brokers.throttling.throttle import QuotaThrottle
from cluster.coordinator.cluster_store import ClusterStore, Quotas, StoreSession
from cluster.coordinator.stored_copy import StoredCopy
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.printable import one_line
from cluster.model.quotas import QuotaEntity
from cluster.quotas.alteration import by_address, host_names
from cluster.quotas.client_quotas import ClientQuotas
from cluster.runtime.clock import Clock
from cluster.runtime.host_addresses import address_of
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)


class QuotaChanges:
    """One per broker, used by its thread; the store's operations run on its own.

    They follow the store as `StoredCopy` does.
    """

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        clock: Clock,
        quotas: ClientQuotas,
        throttle: QuotaThrottle,
        slices: Slices,
        on_changed: OnQuotas = lambda _entity, _before, _now: None,
        on_applied: Callable[[Quotas], None] = lambda _quotas: None,
    ) -> None:
        """`on_applied` is called with all quotas when any has changed, with addresses in place of
        host names.
        """
        self._slices = slices
        self._on_changed = on_changed
        self._store = store
        self._loop = loop
        self._clock = clock
        self._quotas = quotas
        self._throttle = throttle
        self._on_applied = on_applied
        self._copy: StoredCopy[_Loaded] = StoredCopy(
            store,
            loop,
            "the quotas",
            lambda store, on_change: _loaded(store.quotas.load(on_change)),
            self._apply,
        )

    def load_at_start(self) -> None:
        """Blocking: before the first client is served."""
        self._copy.load_at_start()

    def reload(self) -> None:
        """Load the quotas and watch for the next change; after a new session too."""
        self._copy.reload()

    def _apply(self, loaded: "_Loaded") -> None:
        quotas = loaded.quotas
        before = self._quotas.quotas()
        if quotas == before:
            return
        for entity in sorted(before.keys() | quotas.keys(), key=str):
            old, new = before.get(entity, {}), quotas.get(entity, {})
            if old != new:
                limits = {kind.value: limit for kind, limit in new.items()}
                log.info("quotas of %s: %s", entity, limits or "none")
                self._on_changed(entity, old, new)
        self._quotas.replace_quotas(quotas)
        self._slices.start(self._throttle.on_limits_changed(self._quotas.refreshed), 1)
        for host, address in loaded.addresses.items():
            if address is None:
                log.warning("%s has no address: its quota limits nobody", one_line(host))
        self._on_applied(by_address(quotas, loaded.addresses))

    # -- asked by clients --------------------------------------------------------------------------

    def read(
        self, on_done: Callable[[Quotas], None], on_failed: Callable[[Exception], None]
    ) -> None:
        """The quotas as the registry has them now, also those that another broker just wrote."""
        self._store.submit(lambda store: store.quotas.load(), on_done, on_failed)

    def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, str | None]],
        on_done: Callable[[dict[QuotaEntity, Exception | None]], None],
        *,
        is_dry: bool = False,
    ) -> None:
        """Write the changes of each entity, unless `is_dry`; `on_done` gets the error of each, None
        for success.

        By then this broker applies them; the others are being notified by the registry.
        """
        wall_ms = self._clock.wall_ms()
        outcomes: dict[QuotaEntity, Exception | None] = {}
        if not changes:
            on_done(outcomes)
        for entity, own in changes.items():
            self._alter_one(entity, {} if is_dry else own, wall_ms, outcomes, len(changes), on_done)

    def _alter_one(
        self,
        entity: QuotaEntity,
        changes: Mapping[str, str | None],
        wall_ms: WallMs,
        outcomes: dict[QuotaEntity, Exception | None],
        count: int,
        on_done: Callable[[dict[QuotaEntity, Exception | None]], None],
    ) -> None:
        def end(error: Exception | None) -> None:
            outcomes[entity] = error
            if len(outcomes) == count:
                self._store.submit(
                    lambda store: _loaded(store.quotas.load()),
                    finish,
                    lambda _error: on_done(outcomes),
                )

        def finish(loaded: _Loaded) -> None:
            self._apply(loaded)
            on_done(outcomes)

        def write(store: ClusterStore) -> None:
            for host in host_names([entity]):
                if address_of(host) is None:
                    raise Refused(
                        ErrorCode.invalid_request,
                        f"{host} is not a valid IP or resolvable host.",
                    )
            if changes:
                store.quotas.alter(entity, changes, wall_ms)

        self._store.submit(write, lambda _: end(None), end)


class _Loaded(NamedTuple):
    """What the store had, and what the host names among its addresses stood for then."""

    quotas: Quotas
    addresses: Mapping[str, str | None]


def _loaded(quotas: Quotas) -> _Loaded:
    """On the store's thread, since names are looked up."""
    return _Loaded(quotas, {host: address_of(host) for host in host_names(quotas)})
