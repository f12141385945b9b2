"""Names are what jmx_exporter makes of Kafka's beans with its usual rules."""

import re

import pytest

from cluster.dashboard.exposition_text import Type
from cluster.dashboard.prometheus import SUMS, type_of
from cluster.dashboard.prometheus_names import spelled
from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.kafka_names import REQUEST_METRICS, REQUEST_PARTS, TOPIC_METRICS

RULES = (
    # Pattern, name, labels, in the order in which they are tried: the rules of jmx_exporter's
    # example for Kafka 2 (kafka-2_0_0.yml), as Strimzi's kafka-metrics.yaml has them; the first
    # one is Confluent's.
    (r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value", r"kafka_coordinator_\1_\2_\3", {}),
    (r"kafka.(\w+)<type=(.+), name=(.+)Percent\w*><>Value", r"kafka_\1_\2_\3_percent", {}),
    (
        r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*, (.+)=(.+), (.+)=(.+)><>Count",
        r"kafka_\1_\2_\3_total",
        {r"\4": r"\5", r"\6": r"\7"},
    ),
    (
        r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*, (.+)=(.+)><>Count",
        r"kafka_\1_\2_\3_total",
        {r"\4": r"\5"},
    ),
    (r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*><>Count", r"kafka_\1_\2_\3_total", {}),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.+)><>Value", r"kafka_\1_\2_\3", {r"\4": r"\5"}),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>Value", r"kafka_\1_\2_\3", {}),
    (
        r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.+)><>Count",
        r"kafka_\1_\2_\3_count",
        {r"\4": r"\5"},
    ),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>Count", r"kafka_\1_\2_\3_count", {}),
)
SUFFIXES = {Type.COUNTER: "_total", Type.SUMMARY: "_count", Type.GAUGE: ""}
NAMES = [
    *((metric.name, type_of(metric.name, metric)) for metric in BROKER_METRICS),
    *((metric.name, type_of(metric.name, metric)) for metric in TOPIC_METRICS + REQUEST_METRICS),
    *((part.name, Type.SUMMARY) for part in REQUEST_PARTS),
]
KAFKAS = [
    (name, kind)
    for name, kind in NAMES
    # Beans of Kafka's newer metrics (type=group-coordinator-metrics) have attributes in place of
    # names; a counter is one there only by our choice.
    if name.startswith("kafka.") and name not in SUMS and not re.search(r"(type|name)=[a-z]", name)
]


def by_the_rules(bean: str) -> tuple[str, dict[str, str]]:
    for pattern, name, labels in RULES:
        found = re.fullmatch(pattern, bean)
        if found is not None:
            pairs = {found.expand(key): found.expand(value) for key, value in labels.items()}
            return found.expand(name).lower(), pairs
    raise AssertionError(f"no rule for {bean}")


def test_spelled_covers_most_of_kafkas_names():
    assert len(KAFKAS) > 50


@pytest.mark.parametrize(("name", "kind"), KAFKAS, ids=lambda value: str(value))
def test_spelled_follows_the_rules_of_jmx_exporter(name, kind):
    domain, _, tags = name.partition(":")
    attribute = "Value" if kind is Type.GAUGE else "Count"
    place = spelled(name, kind)
    expected = by_the_rules(f"{domain}<{tags.replace(',', ', ')}><>{attribute}")
    assert (place.family + SUFFIXES[kind], dict(place.labels)) == expected
