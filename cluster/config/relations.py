"""Rules between settings; each message names the keys and the remedy."""

from collections.abc import Iterator

from cluster.config import broker, topic
from cluster.config.listener_rules import listener_problems
from cluster.config.setting import SettingError
from cluster.config.snapshot import Settings
from cluster.model.addresses import is_loopback


def check_broker(settings: Settings) -> None:
    """Raise SettingError for the first broken rule between broker settings."""
    for error in listener_problems(settings):
        raise error
    for problem in _broker_problems(settings):
        raise SettingError(problem)


def check_topic(settings: Settings) -> None:
    """Raise SettingError for the first broken rule between topic settings."""
    for problem in _topic_problems(settings):
        raise SettingError(problem)


def _broker_problems(settings: Settings) -> Iterator[str]:
    if not settings[broker.LOG_DIRS]:
        yield "log.dirs is empty: a broker needs at least one directory"
    if settings[broker.ZOOKEEPER_SET_ACL] and settings[broker.REGISTRY_AUTH] is None:
        yield "zookeeper.set.acl=true needs milena.registry.auth: nobody could use the znodes"
    control_host = settings[broker.CONTROL_HOST]
    if not is_loopback(control_host) and settings[broker.REGISTRY_AUTH] is None:
        yield (
            f"milena.control.host={control_host} lets others reach the links between brokers, which"
            " have keys only where brokers log in to the registry: set milena.registry.auth"
        )
    wait, lag = settings[broker.REPLICA_FETCH_WAIT_MAX_MS], settings[broker.REPLICA_LAG_TIME_MAX_MS]
    if wait > lag:
        yield (
            f"replica.fetch.wait.max.ms={wait} is above replica.lag.time.max.ms={lag}:"
            " parked followers would leave the ISR"
        )
    if settings[broker.MESSAGE_MAX_BYTES] > settings[broker.SOCKET_REQUEST_MAX_BYTES]:
        yield (
            f"message.max.bytes={settings[broker.MESSAGE_MAX_BYTES]} is above"
            f" socket.request.max.bytes={settings[broker.SOCKET_REQUEST_MAX_BYTES]}:"
            " such a batch could never arrive"
        )
    queued = settings[broker.QUEUED_MAX_REQUEST_BYTES]
    is_given = bool(settings.given(broker.QUEUED_MAX_REQUEST_BYTES))
    if is_given and 0 <= queued < settings[broker.SOCKET_REQUEST_MAX_BYTES]:
        yield (
            f"queued.max.request.bytes={queued} is below"
            f" socket.request.max.bytes={settings[broker.SOCKET_REQUEST_MAX_BYTES]}:"
            " the largest request would never be read"
        )
    shortest, longest = (
        settings[broker.GROUP_MIN_SESSION_TIMEOUT_MS],
        settings[broker.GROUP_MAX_SESSION_TIMEOUT_MS],
    )
    if shortest > longest:
        yield (
            f"group.min.session.timeout.ms={shortest} is above"
            f" group.max.session.timeout.ms={longest}: no member could join a group"
        )
    yield from _consumer_group_problems(settings)
    yield from _compaction_lag_problem(
        "log.cleaner.min.compaction.lag.ms",
        settings[broker.LOG_CLEANER_MIN_COMPACTION_LAG_MS],
        "log.cleaner.max.compaction.lag.ms",
        settings[broker.LOG_CLEANER_MAX_COMPACTION_LAG_MS],
    )
    yield from _gzip_problem(settings[broker.COMPRESSION_GZIP_LEVEL])


def _consumer_group_problems(settings: Settings) -> Iterator[str]:
    """Kafka: `GroupCoordinatorConfig`."""
    if "classic" not in settings[broker.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]:
        yield "group.coordinator.rebalance.protocols must have classic, which cannot be disabled"
    for least, value, most in (
        (
            broker.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
            broker.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
            broker.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
        ),
        (
            broker.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
            broker.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
            broker.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
        ),
    ):
        for lower, upper in ((least, most), (least, value), (value, most)):
            if settings[lower] > settings[upper]:
                yield (
                    f"{lower.name}={settings[lower]} is above {upper.name}={settings[upper]}:"
                    " it may not be"
                )
    interval, timeout = (
        settings[broker.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS],
        settings[broker.GROUP_CONSUMER_SESSION_TIMEOUT_MS],
    )
    if interval >= timeout:
        yield (
            f"group.consumer.heartbeat.interval.ms={interval} must be less than"
            f" group.consumer.session.timeout.ms={timeout}"
        )


def _topic_problems(settings: Settings) -> Iterator[str]:
    yield from _compaction_lag_problem(
        "min.compaction.lag.ms",
        settings[topic.MIN_COMPACTION_LAG_MS],
        "max.compaction.lag.ms",
        settings[topic.MAX_COMPACTION_LAG_MS],
    )
    yield from _gzip_problem(settings[topic.COMPRESSION_GZIP_LEVEL])
    if settings[topic.REMOTE_STORAGE_ENABLE]:
        yield "remote.storage.enable=true is not valid: tiered storage is disabled in the brokers"


def _gzip_problem(level: int) -> Iterator[str]:
    if level == 0:
        yield "compression.gzip.level=0 is not valid: it must be 1 to 9, or -1"


def _compaction_lag_problem(
    least_name: str, least_ms: int, most_name: str, most_ms: int
) -> Iterator[str]:
    if least_ms > most_ms:
        yield f"{least_name}={least_ms} is above {most_name}={most_ms}: lower it"
