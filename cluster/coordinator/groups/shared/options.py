"""The settings of the group coordinator."""

from dataclasses import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Settings by Kafka's names, with Kafka's defaults; times in milliseconds."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 30 * MINUTE_MS
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    max_size: int = 2**31 - 1
    """group.max.size"""
    metadata_max_bytes: int = 4_096
    """offset.metadata.max.bytes"""
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    """offsets.retention.minutes"""
    retention_check_interval_ms: int = 10 * MINUTE_MS
    """offsets.retention.check.interval.ms"""
    consumer_max_size: int = 2**31 - 1
    """group.consumer.max.size"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """group.consumer.assignors: names in `assignors.ASSIGNORS`; the first is the default"""
    consumer_regex_refresh_interval_ms: int = 10 * MINUTE_MS
    """group.consumer.regex.refresh.interval.ms"""
    consumer_migration_policy: str = "bidirectional"
    """group.consumer.migration.policy: one of `bridge.policy.POLICIES`"""
