"""Kafka's JMX names as Prometheus spells them, by the usual rules of jmx_exporter. Pure.

`kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t` becomes
`kafka_server_brokertopicmetrics_bytesin_total{topic="t"}`: lower case, joined by `_`, a meter is
the counter that it is made of, further tags are labels.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from cluster.dashboard.exposition_text import Type

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]+")
_COUNTER_ENDS: Final = re.compile(r"(PerSec|-rate|-count|-total)$")
_PERCENT_END: Final = re.compile(r"(?<=[a-z])Percent$")


class Spelled(NamedTuple):
    """The place of one value in an exposition."""

    family: str
    """Without `_total`."""
    labels: tuple[tuple[str, str], ...]


@lru_cache(maxsize=16_384)
def spelled(name: str, kind: Type) -> Spelled:
    """The place of the value with the JMX name `name`."""
    domain, _, tags = name.partition(":")
    pairs = [(key, value) for key, _, value in (tag.partition("=") for tag in tags.split(","))]
    last = dict(pairs).get("name", "")
    if kind is Type.COUNTER:
        last = _COUNTER_ENDS.sub("", last)
    else:
        last = _PERCENT_END.sub("_percent", last)
    words = (domain, dict(pairs).get("type", ""), last)
    labels = tuple(
        (_NOT_IN_NAMES.sub("_", key), value) for key, value in pairs if key not in ("type", "name")
    )
    family = "_".join(_NOT_IN_NAMES.sub("_", word) for word in words if word).lower()
    return Spelled(family, labels)
