"""A group's settings, under Kafka 4.1's names; those that are read default to a broker setting."""

from typing import Final, TypeVar

from cluster.config import broker
from cluster.config.effect import Effect, without_effect
from cluster.config.setting import Scope, Setting, SettingTable, Update
from cluster.config.value_type import ValueType, choice, integer, matching

T = TypeVar("T")

GROUP_SETTINGS: Final = SettingTable("group")


def follows(broker_setting: Setting[T], name: str) -> Setting[T]:
    """Define a group setting with the type, default and meaning of a broker setting."""
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


def _without_groups_of_its_type(
    name: str, value_type: ValueType[T], default: T, effect: Effect
) -> Setting[T]:
    return GROUP_SETTINGS.add(
        Setting(
            name,
            value_type,
            default,
            Scope.GROUP,
            Update.CLUSTER_WIDE,
            "A setting of Kafka 4.1.",
            effect=effect,
        )
    )


_SHARE: Final = without_effect("there are no share groups")
_STREAMS: Final = without_effect("there are no streams groups")
SHARE_AUTO_OFFSET_RESET: Final = _without_groups_of_its_type(
    "share.auto.offset.reset",
    matching(r"latest|earliest|by_duration:P\S+", "latest, earliest or by_duration:P..."),
    "latest",
    _SHARE,
)
SHARE_HEARTBEAT_INTERVAL_MS: Final = _without_groups_of_its_type(
    "share.heartbeat.interval.ms", integer(at_least=1), 5_000, _SHARE
)
SHARE_ISOLATION_LEVEL: Final = _without_groups_of_its_type(
    "share.isolation.level",
    choice("read_committed", "read_uncommitted"),
    "read_uncommitted",
    _SHARE,
)
SHARE_RECORD_LOCK_DURATION_MS: Final = _without_groups_of_its_type(
    "share.record.lock.duration.ms", integer(at_least=1_000), 30_000, _SHARE
)
SHARE_SESSION_TIMEOUT_MS: Final = _without_groups_of_its_type(
    "share.session.timeout.ms", integer(at_least=1), 45_000, _SHARE
)
STREAMS_HEARTBEAT_INTERVAL_MS: Final = _without_groups_of_its_type(
    "streams.heartbeat.interval.ms", integer(at_least=1), 5_000, _STREAMS
)
STREAMS_NUM_STANDBY_REPLICAS: Final = _without_groups_of_its_type(
    "streams.num.standby.replicas", integer(at_least=0), 0, _STREAMS
)
STREAMS_SESSION_TIMEOUT_MS: Final = _without_groups_of_its_type(
    "streams.session.timeout.ms", integer(at_least=1), 45_000, _STREAMS
)
