"""The table of what brokers count of clients that push metrics (KIP-714); see broker_metrics.py."""

from typing import Final

from cluster.metrics.declarations import Metric
from cluster.metrics.stats_layout import MetricKind
from cluster.model.units import Unit

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE


def _pushes(key: str, name: str, kind: MetricKind, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=client-metrics,name={name}", kind, unit, doc)


PUSHING_METRICS: Final = (
    _pushes(
        "ClientInstanceCount",
        "instance-count",
        _GAUGE,
        Unit.CLIENTS,
        "client instances that have asked this broker what metrics to push",
    ),
    Metric(
        "PushingClientCount",
        "milena.server:type=ClientMetrics,name=PushingClientCount",
        _GAUGE,
        Unit.CLIENTS,
        "client instances whose pushed metrics this broker has",
    ),
    _pushes(
        "ClientPushes",
        "plugin-export-count",
        _COUNTER,
        Unit.REQUESTS,
        "pushes of clients that were read",
    ),
    _pushes(
        "UnreadableClientPushes",
        "plugin-error-count",
        _COUNTER,
        Unit.REQUESTS,
        "pushes of clients whose metrics could not be read",
    ),
    _pushes(
        "ThrottledClientPushes",
        "throttle-count",
        _COUNTER,
        Unit.REQUESTS,
        "requests of clients that came before their next push was due",
    ),
    _pushes(
        "UnknownSubscriptionPushes",
        "unknown-subscription-request-count",
        _COUNTER,
        Unit.REQUESTS,
        "pushes for a subscription that has changed since",
    ),
)
