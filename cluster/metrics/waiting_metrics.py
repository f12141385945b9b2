"""The rows of the table of metrics for requests that wait, and for fetch sessions."""

from typing import Final

from cluster.metrics.declarations import Metric
from cluster.metrics.stats_layout import MetricKind
from cluster.model.units import Unit

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE


def _waiting(key: str, operation: str, unit: Unit, doc: str) -> Metric:
    name = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize"
    return Metric(key, f"{name},delayedOperation={operation}", _GAUGE, unit, doc)


def _sessions(key: str, kind: MetricKind, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=FetchSessionCache,name={key}", kind, unit, doc)


WAITING_METRICS: Final = (
    _sessions("NumIncrementalFetchSessions", _GAUGE, Unit.SESSIONS, "fetch sessions of clients"),
    _sessions(
        "NumIncrementalFetchPartitionsCached",
        _GAUGE,
        Unit.PARTITIONS,
        "partitions in fetch sessions, each counted once for every session",
    ),
    _sessions(
        "IncrementalFetchSessionEvictionsPerSec",
        _COUNTER,
        Unit.SESSIONS,
        "fetch sessions that lost their slot to another one",
    ),
    Metric(
        "PurgatorySize",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
        _GAUGE,
        Unit.REQUESTS,
        "waiting requests, each counted once for every partition that can complete it",
    ),
    _waiting(
        "ProducePurgatorySize", "Produce", Unit.REQUESTS, "waiting produce requests with acks=all"
    ),
    _waiting(
        "FetchPurgatorySize",
        "Fetch",
        Unit.REQUESTS,
        "waiting fetch requests; those of a fetch session are counted once",
    ),
    _waiting(
        "DeleteRecordsPurgatorySize",
        "DeleteRecords",
        Unit.REQUESTS,
        "waiting DeleteRecords requests",
    ),
    _waiting(
        "MetadataPurgatorySize",
        "Metadata",
        Unit.REQUESTS,
        "waiting metadata requests; not in Kafka",
    ),
    _waiting(
        "RebalancePurgatorySize",
        "Rebalance",
        Unit.GROUPS,
        "classic groups that wait for members to join",
    ),
)
