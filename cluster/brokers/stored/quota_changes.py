"""Quotas: follows the stored ones, applies them, and changes them for clients."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from cluster.brokers.stored.document_follower import DocumentFollower
from cluster.brokers.throttling.quota_events import OnQuotas
from cluster.brokers.throttling.throttle import QuotaThrottle
from cluster.coordinator.cluster_store import ClusterStore, Quotas, StoreSession
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome
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
    """One per broker, used by its thread."""

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
        self._clock = clock
        self._quotas = quotas
        self._throttle = throttle
        self._on_applied = on_applied
        self.follower: DocumentFollower[_Loaded] = DocumentFollower(
            store,
            loop,
            "the quotas",
            lambda stores, on_change: _loaded(stores.quotas.load(on_change)),
            self._apply,
        )

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
                log.warning("the quota of host %s has no effect: no address", one_line(host))
        self._on_applied(by_address(quotas, loaded.addresses))

    def read(
        self, on_done: Callable[[Quotas], None], on_failed: Callable[[Exception], None]
    ) -> None:
        """The quotas as they are stored now, including what another broker has just written."""
        self._store.submit(lambda stores: stores.quotas.load(), on_done, on_failed)

    def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, str | None]],
        on_done: Callable[[dict[QuotaEntity, Outcome]], None],
        *,
        is_dry: bool = False,
    ) -> None:
        """Write the changes of each entity, unless `is_dry`; calls back with the outcome of each.

        By then this broker applies them; the others are being notified.
        """
        wall_ms = self._clock.wall_ms()
        self.follower.change(
            {
                entity: partial(_alter, entity, {} if is_dry else own, wall_ms)
                for entity, own in changes.items()
            },
            on_done,
        )


def _alter(
    entity: QuotaEntity, changes: Mapping[str, str | None], wall_ms: WallMs, store: ClusterStore
) -> None:
    for host in host_names([entity]):
        if address_of(host) is None:
            raise Refused(
                ErrorCode.invalid_request, f"{host} is not a valid IP or resolvable host."
            )
    if changes:
        store.quotas.alter(entity, changes, wall_ms)


class _Loaded(NamedTuple):
    """The stored quotas, and the addresses of the hosts that they name."""

    quotas: Quotas
    addresses: Mapping[str, str | None]


def _loaded(quotas: Quotas) -> _Loaded:
    """Runs on the store's thread, since looking up names blocks."""
    return _Loaded(quotas, {host: address_of(host) for host in host_names(quotas)})
