"""The JSON records of `__cluster_metrics`: of brokers, of active clients' quotas, of groups.

Pure. The fields are described in docs/metrics.md, which names this module as their source.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from cluster.model.clocks import WallMs
from cluster.model.quota_usage import QuotaUsage

VERSION: Final = 1
_USAGE_FIELDS: Final = tuple(field.name for field in fields(QuotaUsage))


class MetricRecord(NamedTuple):
    """A record of the topic, whose timestamp is the `ts` in its value."""

    value: bytes
    timestamp_ms: WallMs


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def quota_record(broker: int, wall_ms: WallMs, interval_ms: int, usage: QuotaUsage) -> MetricRecord:
    """A record of kind `quota`; `wall_ms` is the end of the interval."""
    head = {
        "v": VERSION,
        "kind": "quota",
        "ts": wall_ms,
        "interval_ms": interval_ms,
        "broker": broker,
    }
    values = {name: getattr(usage, name) for name in _USAGE_FIELDS}
    for name in ("limit", "usage", "rate"):  # readers take a column's type from any of its values
        if values[name] is not None:
            values[name] = float(values[name])
    return _record(head | values)


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition."""

    partition: int
    log_end: int | None
    """The high watermark, as consumers see the end; None while no leader has said it."""
    committed: int

    @property
    def lag(self) -> int | None:
        """Records that the group has not committed. None if the end is not known. Never below 0:
        Kafka's tool shows a negative one where a log was cut, or deleted and made again."""
        return None if self.log_end is None else max(0, self.log_end - self.committed)


def lag_records(
    broker: int,
    wall_ms: WallMs,
    interval_ms: int,
    group: str,
    topic: str,
    partitions: Iterable[PartitionLag],
) -> list[MetricRecord]:
    """Records of kind `lag`, one for each partition of the topic: a microsecond each."""
    head = _encode(
        {
            "v": VERSION,
            "kind": "lag",
            "ts": wall_ms,
            "interval_ms": interval_ms,
            "broker": broker,
            "group": group,
            "topic": topic,
        }
    )[:-1]
    rows = [
        f'{head},"partition":{each.partition},"log_end":{_number(each.log_end)},'
        f'"committed":{each.committed},"lag":{_number(each.lag)}}}'
        for each in partitions
    ]
    return [MetricRecord(row.encode("utf-8", "replace"), wall_ms) for row in rows]


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


class GroupFigures(NamedTuple):
    """The fields of a record of kind `group`, with their names there (docs/metrics.md)."""

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
    """A record of kind `group`."""
    head = {
        "v": VERSION,
        "kind": "group",
        "ts": wall_ms,
        "interval_ms": interval_ms,
        "broker": broker,
    }
    return _record(head | figures._asdict())


def broker_record(
    broker: int, wall_ms: WallMs, interval_ms: int, values: Mapping[str, float]
) -> MetricRecord:
    """A record of kind `broker`: rates are per second, gauges are present values."""
    return _record(
        {
            "v": VERSION,
            "kind": "broker",
            "ts": wall_ms,
            "interval_ms": interval_ms,
            "broker": broker,
            "values": dict(values),
        }
    )


def _record(fields: Mapping[str, Any]) -> MetricRecord:
    return MetricRecord(_encode(fields).encode("utf-8", "replace"), fields["ts"])
