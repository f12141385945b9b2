"""The JSON records of `__cluster_metrics`: brokers, clients' quotas, groups, topics, events.

Pure. docs/metrics.md describes the fields.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.metrics.events import Event
from cluster.model.clocks import WallMs
from cluster.model.quota_usage import USAGE_FIELDS, QuotaUsage

VERSION: Final = 1


class MetricRecord(NamedTuple):
    """A record of the topic, whose timestamp is the `ts` in its value."""

    value: bytes
    timestamp_ms: WallMs


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def quota_record(broker: int, wall_ms: WallMs, interval_ms: int, usage: QuotaUsage) -> MetricRecord:
    """A record of kind `quota`; `wall_ms` is the end of the interval."""
    values = {name: getattr(usage, name) for name in USAGE_FIELDS}
    for name in (
        "limit",
        "usage",
        "rate",
    ):  # a reader infers a column's type from any of its values
        if values[name] is not None:
            values[name] = float(values[name])
    return _record(_head("quota", broker, wall_ms, interval_ms) | values)


class PartitionLag(NamedTuple):
    """A group's lag in one partition."""

    partition: int
    log_end: int | None
    """The high watermark, which is the end for consumers; None until a leader has reported it."""
    committed: int

    @property
    def lag(self) -> int | None:
        """The records that the group has not committed; None if the end is unknown.

        Never below 0: Kafka's tool shows a negative lag after a log was truncated or recreated.
        """
        return None if self.log_end is None else max(0, self.log_end - self.committed)


def lag_records(
    broker: int,
    wall_ms: WallMs,
    interval_ms: int,
    group: str,
    topic: str,
    partitions: Iterable[PartitionLag],
) -> list[MetricRecord]:
    """A record of kind `lag` for each partition of the topic, at about a microsecond each."""
    names = {"group": group, "topic": topic}
    head = _encode(_head("lag", broker, wall_ms, interval_ms) | names)[:-1]
    rows = [
        f'{head},"partition":{each.partition},"log_end":{_number(each.log_end)},'
        f'"committed":{each.committed},"lag":{_number(each.lag)}}}'
        for each in partitions
    ]
    return [MetricRecord(row.encode("utf-8", "replace"), wall_ms) for row in rows]


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


class TopicFigures(NamedTuple):
    """The fields of a record of kind `topic` (docs/metrics.md)."""

    topic: str
    bytes_in: int
    bytes_out: int
    messages_in: int
    produces: int
    failed_produces: int
    fetches: int
    failed_fetches: int
    size: int
    partitions: int
    leaders: int


class LatencyFigures(NamedTuple):
    """The fields of a record of kind `latency` (docs/metrics.md)."""

    api: str
    requests: int
    total_us: int
    buckets: Sequence[int]


class GroupFigures(NamedTuple):
    """The fields of a record of kind `group` (docs/metrics.md)."""

    group: str
    type: str
    protocol_type: str
    state: str
    generation: int
    members: int
    partitions: int
    partitions_unknown: int
    lag: int
    lag_max: int
    state_ms: Mapping[str, int]


def group_record(
    broker: int, wall_ms: WallMs, interval_ms: int, figures: GroupFigures
) -> MetricRecord:
    return _record(_head("group", broker, wall_ms, interval_ms) | figures._asdict())


def topic_record(
    broker: int, wall_ms: WallMs, interval_ms: int, figures: TopicFigures
) -> MetricRecord:
    return _record(_head("topic", broker, wall_ms, interval_ms) | figures._asdict())


def latency_record(
    broker: int, wall_ms: WallMs, interval_ms: int, figures: LatencyFigures
) -> MetricRecord:
    return _record(_head("latency", broker, wall_ms, interval_ms) | figures._asdict())


def event_record(broker: int, wall_ms: WallMs, interval_ms: int, event: Event) -> MetricRecord:
    return _record(
        _head("event", broker, wall_ms, interval_ms)
        | {
            "event": event.kind.value,
            "subject": event.subject,
            "detail": event.detail,
            "count": event.count,
        }
    )


def broker_record(
    broker: int, wall_ms: WallMs, interval_ms: int, values: Mapping[str, float]
) -> MetricRecord:
    """A record of kind `broker`: rates are per second, gauges are current values."""
    return _record(_head("broker", broker, wall_ms, interval_ms) | {"values": dict(values)})


def _head(kind: str, broker: int, wall_ms: WallMs, interval_ms: int) -> dict[str, Any]:
    return {
        "v": VERSION,
        "kind": kind,
        "ts": wall_ms,
        "interval_ms": interval_ms,
        "broker": broker,
    }


def _record(fields: Mapping[str, Any]) -> MetricRecord:
    return MetricRecord(_encode(fields).encode("utf-8", "replace"), fields["ts"])
