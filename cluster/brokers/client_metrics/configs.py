"""The client metrics resources: follows the stored ones and changes them for clients (KIP-714).

Kafka: `ClientMetricsConfigHandler`.
"""

import logging
from collections.abc import Callable, Mapping

from cluster.brokers.client_metrics.subscriptions import (
    Subscription,
    subscription_of,
    subscription_settings,
)
from cluster.brokers.stored.config_changes import Change, change_config
from cluster.brokers.stored.document_follower import DocumentFollower
from cluster.config.snapshot import Settings
from cluster.coordinator.cluster_store import ConfigKind, StoreSession, client_metrics_config
from cluster.model.errors import Refused
from cluster.model.plan import Outcome
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

Configs = Mapping[str, Mapping[str, str]]


class ClientMetricsConfigs:
    """One per broker, used by its thread."""

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        clock: Clock,
        take: Callable[[Mapping[str, Subscription]], None],
    ) -> None:
        """`take` gets all subscriptions whenever one has changed."""
        self._store = store
        self._clock = clock
        self._take = take
        self._stored: Configs = {}
        self.follower: DocumentFollower[Configs] = DocumentFollower(
            store,
            loop,
            "the client metrics subscriptions",
            lambda stores, on_change: stores.configs.load_all(ConfigKind.CLIENT_METRICS, on_change),
            self._apply,
        )

    def names(self) -> list[str]:
        """The resources that exist."""
        return list(self._stored)

    @property
    def is_empty(self) -> bool:
        """Whether there is no resource."""
        return not self._stored

    def settings_of(self, name: str) -> Settings:
        """The settings of a resource; stored ones that are invalid are ignored."""
        try:
            return subscription_settings(self._stored.get(name, {}))
        except Refused:
            return subscription_settings({})

    def alter(
        self, name: str, change: Change, on_done: Callable[[Outcome], None], *, is_dry: bool
    ) -> None:
        """Change a resource for a client; see `change_config`."""

        def changed(before: Mapping[str, str]) -> dict[str, str]:
            after = change(before)
            subscription_of(after)
            return after

        change_config(
            self._store,
            client_metrics_config(name),
            self._clock.wall_ms,
            changed,
            self.follower,
            on_done,
            is_dry=is_dry,
        )

    def _apply(self, configs: Configs) -> None:
        if configs == self._stored:
            return
        self._stored = configs
        found = {}
        for name, texts in sorted(configs.items()):
            try:
                found[name] = subscription_of(texts)
            except Refused as refused:
                log.warning("ignored client metrics subscription %s: %s", name, refused.detail)
        self._take(found)
        log.info("client metrics subscriptions: %s", ", ".join(found) or "none")
