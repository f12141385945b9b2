"""Derives the option records of the broker's parts from its settings. Pure."""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from cluster.brokers.coordinators.options import CoordinatorOptions
from cluster.brokers.network.socket_server import NetworkOptions
from cluster.brokers.replication.follower_fetcher import FetchOptions
from cluster.brokers.replication.replication_throttles import Replicas
from cluster.brokers.security.authorizer import Authorizer
from cluster.brokers.stored.delegation_tokens import TokenRules
from cluster.config import broker, topic
from cluster.config.listeners import client_listeners, of_listener
from cluster.config.settings import Settings, topic_settings
from cluster.config.value_type import LONG_MAX
from cluster.coordinator.controller.leader_returns import ReturnOptions
from cluster.coordinator.groups.shared.options import MINUTE_MS, GroupOptions
from cluster.coordinator.transactions.options import TransactionOptions
from cluster.coordinator.transactions.transaction import EPOCH_BUMPED_AT_END
from cluster.log.options import NO_LIMIT, CleaningPolicy, LogOptions
from cluster.model.cluster import Endpoint
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId
from cluster.model.topics import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    NewTopic,
)
from cluster.quotas.connection_rates import CreationRates
from cluster.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.records.batch import Compression

log = logging.getLogger(__name__)

_THROTTLED_REPLICAS: Final = frozenset(
    {
        topic.LEADER_REPLICATION_THROTTLED_REPLICAS.name,
        topic.FOLLOWER_REPLICATION_THROTTLED_REPLICAS.name,
    }
)


def network_options(settings: Settings) -> NetworkOptions:
    """The limits of the client port."""
    return NetworkOptions(
        max_frame_bytes=settings[broker.SOCKET_REQUEST_MAX_BYTES],
        max_connections=settings[broker.MAX_CONNECTIONS],
        max_connections_per_ip=settings[broker.MAX_CONNECTIONS_PER_IP],
        max_idle_ms=settings[broker.CONNECTIONS_MAX_IDLE_MS],
        queued_max_request_bytes=_queued_bytes(settings),
        send_buffer_bytes=settings[broker.SOCKET_SEND_BUFFER_BYTES],
        receive_buffer_bytes=settings[broker.SOCKET_RECEIVE_BUFFER_BYTES],
        listen_backlog=settings[broker.SOCKET_LISTEN_BACKLOG_SIZE],
        max_connections_of_hosts={
            host: int(count)
            for host, _, count in (
                each.strip().rpartition(":")
                for each in settings[broker.MAX_CONNECTIONS_PER_IP_OVERRIDES].split(",")
                if each.strip()
            )
        },
        max_connections_of_listeners={
            listener.name: of_listener(settings, listener.name)[broker.MAX_CONNECTIONS]
            for listener in client_listeners(settings)
        },
    )


def creation_rates(settings: Settings) -> CreationRates:
    """The connection creation rates (KIP-612)."""

    def limit(own: Settings) -> int | None:
        rate = own[broker.MAX_CONNECTION_CREATION_RATE]
        return None if rate == broker.MAX_CONNECTION_CREATION_RATE.default else rate

    limits = {
        listener.name: limit(of_listener(settings, listener.name))
        for listener in client_listeners(settings)
    }
    return CreationRates(
        limit(settings), {name: rate for name, rate in limits.items() if rate is not None}
    )


def _queued_bytes(settings: Settings) -> int:
    """The queue limit. A larger request size overrides the default; a configured value has been
    checked against the request size.
    """
    queued_bytes = settings[broker.QUEUED_MAX_REQUEST_BYTES]
    if queued_bytes < 0:
        return queued_bytes
    return max(queued_bytes, settings[broker.SOCKET_REQUEST_MAX_BYTES])


def fetch_options(
    settings: Settings, machine: str, broker_epoch: Callable[[], int]
) -> FetchOptions:
    """The options of this broker's fetches as a follower."""
    return FetchOptions(
        local_id=BrokerId(settings[broker.BROKER_ID]),
        machine=machine,
        max_wait_ms=settings[broker.REPLICA_FETCH_WAIT_MAX_MS],
        max_bytes=settings[broker.REPLICA_FETCH_RESPONSE_MAX_BYTES],
        retry_ms=settings[broker.REPLICA_FETCH_BACKOFF_MS],
        by_file=settings[broker.REPLICA_FETCH_SHARED_MEMORY],
        broker_epoch=broker_epoch,
    )


def quota_windows(settings: Settings) -> WindowOptions:
    """The windows in which client rates are measured."""
    return WindowOptions(
        window_count=settings[broker.QUOTA_WINDOW_NUM],
        window_ms=settings[broker.QUOTA_WINDOW_SIZE_SECONDS] * 1_000,
        credit=WindowCredit(settings[broker.QUOTA_WINDOW_CREDIT]),
    )


def replication_windows(settings: Settings) -> WindowOptions:
    """The windows in which the rate of throttled replication is measured.

    The divisor is the time since the oldest window began, as of Kafka's `SimpleRate`.
    """
    return WindowOptions(
        window_count=settings[broker.REPLICATION_QUOTA_WINDOW_NUM],
        window_ms=settings[broker.REPLICATION_QUOTA_WINDOW_SIZE_SECONDS] * 1_000,
    )


def replication_limits(settings: Settings) -> tuple[int | None, int | None]:
    """The replication quotas of a leader and of a follower; None without one."""
    rates = (
        settings[broker.LEADER_REPLICATION_THROTTLED_RATE],
        settings[broker.FOLLOWER_REPLICATION_THROTTLED_RATE],
    )
    leader, follower = (None if rate == LONG_MAX else rate for rate in rates)
    return leader, follower


def throttled_replicas(settings: Settings, overrides: Mapping[str, str]) -> Replicas:
    """A topic's throttled replicas as leaders and as followers. Raises Refused."""
    given = {name: text for name, text in overrides.items() if name in _THROTTLED_REPLICAS}
    if not given:
        return (), ()
    own = topic_settings(settings, given)
    return (
        own[topic.LEADER_REPLICATION_THROTTLED_REPLICAS],
        own[topic.FOLLOWER_REPLICATION_THROTTLED_REPLICAS],
    )


def mutation_windows(settings: Settings) -> WindowOptions:
    """The windows in which a client's topic mutations are counted (KIP-599)."""
    return WindowOptions(
        window_count=settings[broker.CONTROLLER_QUOTA_WINDOW_NUM],
        window_ms=settings[broker.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS] * 1_000,
    )


def group_options(settings: Settings) -> GroupOptions:
    """The options of consumer groups."""
    return GroupOptions(
        min_session_timeout_ms=settings[broker.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=settings[broker.GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=settings[broker.GROUP_INITIAL_REBALANCE_DELAY_MS],
        max_size=settings[broker.GROUP_MAX_SIZE],
        metadata_max_bytes=settings[broker.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=settings[broker.OFFSETS_RETENTION_MINUTES] * MINUTE_MS,
        retention_check_interval_ms=settings[broker.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
        consumer_max_size=settings[broker.GROUP_CONSUMER_MAX_SIZE],
        consumer_assignors=settings[broker.GROUP_CONSUMER_ASSIGNORS],
        consumer_migration_policy=settings[broker.GROUP_CONSUMER_MIGRATION_POLICY],
        consumer_regex_refresh_interval_ms=settings[
            broker.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS
        ],
    )


def group_coordinator_options(settings: Settings) -> CoordinatorOptions:
    """The options for reading and writing the group coordinator's topic."""
    return CoordinatorOptions(
        topic=CONSUMER_OFFSETS_TOPIC,
        invalid_key=ErrorCode.invalid_group_id,
        load_buffer_bytes=settings[broker.OFFSETS_LOAD_BUFFER_SIZE],
        append_timeout_ms=settings[broker.OFFSETS_COMMIT_TIMEOUT_MS],
        codec=Compression(settings[broker.OFFSETS_TOPIC_COMPRESSION_CODEC]),
    )


def features(settings: Settings) -> dict[str, int]:
    """The finalized features with their levels, as ApiVersions reports them."""
    found = {"transaction.version": EPOCH_BUMPED_AT_END}
    if "consumer" in settings[broker.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]:
        found["group.version"] = 1
    return found


def transaction_coordinator_options(settings: Settings) -> CoordinatorOptions:
    """The options for reading and writing the transaction coordinator's topic."""
    return CoordinatorOptions(
        topic=TRANSACTION_STATE_TOPIC,
        invalid_key=ErrorCode.invalid_request,
        load_buffer_bytes=settings[broker.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE],
        append_timeout_ms=settings[broker.REQUEST_TIMEOUT_MS],
        codec=Compression.NONE,
        loads_committed=True,
    )


def transaction_options(settings: Settings) -> TransactionOptions:
    """The times of transactional ids."""
    return TransactionOptions(
        id_expiration_ms=settings[broker.TRANSACTIONAL_ID_EXPIRATION_MS],
        timeout_check_interval_ms=settings[
            broker.TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS
        ],
        expiry_check_interval_ms=settings[
            broker.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS
        ],
        wait_max_ms=settings[broker.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS],
    )


def leader_returns(settings: Settings) -> ReturnOptions:
    """When leadership moves back to preferred replicas."""
    return ReturnOptions(
        is_enabled=settings[broker.AUTO_LEADER_REBALANCE_ENABLE],
        delay_ms=settings[broker.LEADER_REBALANCE_DELAY_MS],
        check_interval_ms=settings[broker.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS] * 1_000,
        percentage=settings[broker.LEADER_IMBALANCE_PER_BROKER_PERCENTAGE],
    )


def automatic_topic(settings: Settings, name: str) -> NewTopic:
    """The settings of an automatically created topic (Kafka: `AutoTopicCreationManager`)."""
    if name == TRANSACTION_STATE_TOPIC:
        return NewTopic(
            name,
            settings[broker.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
            settings[broker.TRANSACTION_STATE_LOG_REPLICATION_FACTOR],
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(settings[broker.TRANSACTION_STATE_LOG_MIN_ISR]),
                "segment.bytes": str(settings[broker.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
                "unclean.leader.election.enable": "false",
            },
        )
    if name != CONSUMER_OFFSETS_TOPIC:
        return NewTopic(name)
    return NewTopic(
        name,
        settings[broker.OFFSETS_TOPIC_NUM_PARTITIONS],
        settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR],
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings[broker.OFFSETS_TOPIC_SEGMENT_BYTES]),
        },
    )


def stored_topic_settings(settings: Settings, overrides: Mapping[str, str]) -> Settings:
    """The settings of an existing topic, from its configs in the registry.

    A broker checks the configs that it writes, but Kafka or another tool may have written to the
    registry: a config that this broker would refuse is ignored, with one log line.
    """
    try:
        return topic_settings(settings, overrides)
    except Refused:
        usable: dict[str, str] = {}
        for key, value in overrides.items():
            try:
                topic_settings(settings, usable | {key: value})
            except Refused as refused:
                _warn_once(refused.detail)
            else:
                usable[key] = value
        return topic_settings(settings, usable)


@lru_cache(maxsize=256)
def _warn_once(reason: str) -> None:
    """Log each reason once; otherwise every partition in every update would log it again."""
    log.warning("ignored a topic config in the registry: %s", reason)


def log_options(settings: Settings, overrides: Mapping[str, str]) -> tuple[LogOptions, int]:
    """The log options and the min.insync.replicas of an existing topic."""
    own = stored_topic_settings(settings, overrides)
    is_compacted = "compact" in own[topic.CLEANUP_POLICY]
    max_lag_ms = own[topic.MAX_COMPACTION_LAG_MS]
    options = LogOptions(
        segment_bytes=own[topic.SEGMENT_BYTES],
        # Only closed segments are compacted.
        segment_ms=min(own[topic.SEGMENT_MS], max_lag_ms if is_compacted else NO_LIMIT),
        segment_jitter_ms=own[topic.SEGMENT_JITTER_MS],
        index_interval_bytes=own[topic.INDEX_INTERVAL_BYTES],
        segment_index_bytes=own[topic.SEGMENT_INDEX_BYTES],
        max_message_bytes=own[topic.MAX_MESSAGE_BYTES],
        message_timestamp_type=own[topic.MESSAGE_TIMESTAMP_TYPE],
        message_timestamp_before_max_ms=own[topic.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
        message_timestamp_after_max_ms=own[topic.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        flush_messages=own[topic.FLUSH_MESSAGES],
        flush_ms=own[topic.FLUSH_MS],
        file_delete_delay_ms=own[topic.FILE_DELETE_DELAY_MS],
        retention_ms=own[topic.RETENTION_MS],
        retention_bytes=own[topic.RETENTION_BYTES],
        is_deleted="delete" in own[topic.CLEANUP_POLICY],
        preallocate=own[topic.PREALLOCATE],
        preallocate_step_bytes=settings[broker.LOG_PREALLOCATE_STEP_BYTES],
        producer_id_expiration_ms=settings[broker.PRODUCER_ID_EXPIRATION_MS],
        compression_type=own[topic.COMPRESSION_TYPE],
        compression_gzip_level=own[topic.COMPRESSION_GZIP_LEVEL],
        compression_lz4_level=own[topic.COMPRESSION_LZ4_LEVEL],
        compression_zstd_level=own[topic.COMPRESSION_ZSTD_LEVEL],
        is_compacted=is_compacted,
        cleaning=CleaningPolicy(
            min_dirty_ratio=own[topic.MIN_CLEANABLE_DIRTY_RATIO],
            min_lag_ms=own[topic.MIN_COMPACTION_LAG_MS],
            max_lag_ms=max_lag_ms,
            delete_retention_ms=own[topic.DELETE_RETENTION_MS],
        ),
    )
    return options, own[topic.MIN_INSYNC_REPLICAS]


def advertised_endpoints(
    settings: Settings, bound_ports: Mapping[str, int]
) -> tuple[Endpoint, ...]:
    """The endpoints of each listener for clients: the advertised ones, or the listeners with their
    bound ports if none are advertised. Clients of a listener that is not advertised get no broker
    endpoints.
    """
    advertised = settings[broker.ADVERTISED_LISTENERS]
    told = {listener.name: listener for listener in advertised or settings[broker.LISTENERS]}
    return tuple(
        Endpoint(
            each.name,
            each.protocol,
            told[each.name].host,
            told[each.name].port or bound_ports[each.name],
        )
        for each in client_listeners(settings)
        if each.name in told
    )


def authorizer(settings: Settings) -> Authorizer | None:
    """The authorizer; None if everybody may do everything."""
    if settings[broker.AUTHORIZER_CLASS_NAME] is None:
        return None
    super_users = settings[broker.SUPER_USERS]
    return Authorizer(
        super_users,
        allows_without_rules=settings[broker.ALLOW_EVERYONE_IF_NO_ACL_FOUND],
    )


def token_rules(settings: Settings) -> TokenRules:
    """The lifetimes and the maximal number of delegation tokens."""
    return TokenRules(
        settings[broker.DELEGATION_TOKEN_SECRET_KEY],
        settings[broker.DELEGATION_TOKEN_MAX_LIFETIME_MS],
        settings[broker.DELEGATION_TOKEN_EXPIRY_TIME_MS],
        settings[broker.DELEGATION_TOKEN_MAX_PER_OWNER],
    )
