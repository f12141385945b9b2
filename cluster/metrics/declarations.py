"""The declaration of a metric: short key, Kafka's JMX name, kind, unit and meaning. Pure."""

from typing import Final, NamedTuple

from cluster.metrics.stats_layout import MetricKind
from cluster.model.units import Unit

OTHER: Final = "_other"
"""Stands for the topics without a row of their own, and for errors beyond the bound."""


class Metric(NamedTuple):
    """One metric. `key` is also its key in the `values` of a broker's metric record."""

    key: str
    name: str
    kind: MetricKind
    unit: Unit
    doc: str

    @property
    def is_rate(self) -> bool:
        """Whether metric records contain the rate per second rather than the value itself."""
        return self.kind is MetricKind.COUNTER


class RequestPart(NamedTuple):
    """One part of the time that a request of an API takes; `key` is Kafka's name."""

    key: str
    doc: str
    unit: Unit = Unit.MILLISECONDS

    @property
    def name(self) -> str:
        """Kafka's name, in which `<Api>` stands for the API."""
        return f"kafka.network:type=RequestMetrics,name={self.key},request=<Api>"


def without_labels(name: str) -> str:
    """The type and name of a JMX name, without its other tags."""
    domain, _, tags = name.partition(":")
    kept = [tag for tag in tags.split(",") if tag.startswith(("type=", "name="))]
    return f"{domain}:{','.join(kept)}"
