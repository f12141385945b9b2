"""The configs of groups (KIP-848): follows the stored ones and changes them for clients.

Kafka: `GroupConfigManager`.
"""

import logging
from collections.abc import Callable, Mapping

from cluster.brokers.stored.config_changes import Change, change_config
from cluster.brokers.stored.document_follower import DocumentFollower
from cluster.config import broker, group
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import group_settings
from cluster.config.snapshot import Settings
from cluster.coordinator.cluster_store import ConfigKind, StoreSession, group_config
from cluster.coordinator.groups.consumer.requests import ConsumerTimings
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

Configs = Mapping[str, Mapping[str, str]]


class GroupConfigs:
    """One per broker, used by its thread."""

    def __init__(
        self, store: StoreSession, loop: EventLoop, clock: Clock, live: LiveSettings
    ) -> None:
        self._store = store
        self._clock = clock
        self._live = live
        self._stored: Configs = {}
        self._timings: dict[str, ConsumerTimings] = {}
        """Only for groups that have configs."""
        self._default_timings = _timings(self.settings_of(""))
        self.follower: DocumentFollower[Configs] = DocumentFollower(
            store,
            loop,
            "the configs of groups",
            lambda stores, on_change: stores.configs.load_all(ConfigKind.GROUP, on_change),
            self._apply,
        )

    def timings(self, group_id: str) -> ConsumerTimings:
        """The session timeout and the heartbeat interval of a group's members."""
        return self._timings.get(group_id, self._default_timings)

    def settings_of(self, group_id: str) -> Settings:
        """A group's settings over those of this broker.

        If the stored values are invalid or contradict this broker's settings, all are ignored.
        """
        texts = self._stored.get(group_id, {})
        try:
            return _checked(self._live.now, texts)
        except Refused as refused:
            log.warning("ignored the configs of group %s: %s", group_id, refused.detail)
            return group_settings(self._live.now, {})

    def group_ids(self) -> list[str]:
        """The groups that have configs of their own."""
        return list(self._stored)

    def _apply(self, configs: Configs) -> None:
        before = self._stored
        if configs == before:
            return
        self._stored = configs
        for group_id in sorted(before.keys() | configs.keys()):
            texts = configs.get(group_id)
            if texts == before.get(group_id):
                continue
            log.info("configs of group %s: %s", group_id, dict(texts) if texts else "none")
            if texts is None:
                self._timings.pop(group_id, None)
            else:
                self._timings[group_id] = _timings(self.settings_of(group_id))

    def alter(
        self, group_id: str, change: Change, on_done: Callable[[Outcome], None], *, is_dry: bool
    ) -> None:
        """Change the configs of a group for a client; see `change_config`."""

        def changed(before: Mapping[str, str]) -> dict[str, str]:
            after = change(before)
            _checked(self._live.now, after)
            return after

        change_config(
            self._store,
            group_config(group_id),
            self._clock.wall_ms,
            changed,
            self.follower,
            on_done,
            is_dry=is_dry,
        )


def _checked(of_broker: Settings, texts: Mapping[str, str]) -> Settings:
    """A group's settings. Raises Refused if they exceed the broker's bounds (Kafka:
    `GroupConfig.validate`).
    """
    settings = group_settings(of_broker, texts)
    for key, value, least, most in (
        (
            group.CONSUMER_HEARTBEAT_INTERVAL_MS.name,
            settings[group.CONSUMER_HEARTBEAT_INTERVAL_MS],
            of_broker[broker.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS],
            of_broker[broker.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS],
        ),
        (
            group.CONSUMER_SESSION_TIMEOUT_MS.name,
            settings[group.CONSUMER_SESSION_TIMEOUT_MS],
            of_broker[broker.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS],
            of_broker[broker.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS],
        ),
    ):
        bound = key.removeprefix("consumer.")
        if value < least:
            raise _refused(f"{key} must be greater than or equal to group.consumer.min.{bound}")
        if value > most:
            raise _refused(f"{key} must be less than or equal to group.consumer.max.{bound}")
    if (
        settings[group.CONSUMER_SESSION_TIMEOUT_MS]
        <= settings[group.CONSUMER_HEARTBEAT_INTERVAL_MS]
    ):
        raise _refused(
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
        )
    return settings


def _refused(why: str) -> Refused:
    return Refused(ErrorCode.invalid_config, why)


def _timings(settings: Settings) -> ConsumerTimings:
    return ConsumerTimings(
        session_timeout_ms=settings[group.CONSUMER_SESSION_TIMEOUT_MS],
        heartbeat_interval_ms=settings[group.CONSUMER_HEARTBEAT_INTERVAL_MS],
    )
