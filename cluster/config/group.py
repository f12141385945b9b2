"""A group's settings, under Kafka 4.1's names; each follows a broker setting unless overridden."""

from typing import Final, TypeVar

from cluster.config import broker
from cluster.config.setting import Scope, Setting, SettingTable, Update

T = TypeVar("T")

GROUP_SETTINGS: Final = SettingTable("group")


def follows(broker_setting: Setting[T], name: str) -> Setting[T]:
    """Define a group setting that takes type, default and meaning from a broker setting."""
    return GROUP_SETTINGS.add(
        Setting(
            name,
            broker_setting.type,
            broker_setting.default,
            Scope.GROUP,
            Update.CLUSTER_WIDE,
            broker_setting.doc,
            broker_setting=broker_setting,
        )
    )


CONSUMER_SESSION_TIMEOUT_MS: Final = follows(
    broker.GROUP_CONSUMER_SESSION_TIMEOUT_MS, "consumer.session.timeout.ms"
)
CONSUMER_HEARTBEAT_INTERVAL_MS: Final = follows(
    broker.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, "consumer.heartbeat.interval.ms"
)
