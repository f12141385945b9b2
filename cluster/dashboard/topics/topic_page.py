"""One topic as the page shows it: partitions, offsets, configs, consumers. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster.client.topic_requests import TopicFacts
from cluster.config.effect import remark_of
from cluster.config.snapshot import Source
from cluster.dashboard.sources import Json
from cluster.dashboard.topics.broker_figures import TopicFigures
from cluster.dashboard.topics.topic_list import is_internal, replication
from cluster.protocol.messages import DescribeConfigsResourceResult

_SOURCES: Final[Mapping[int, str]] = {
    Source.DYNAMIC_TOPIC: "topic",
    Source.DYNAMIC_BROKER: "broker, dynamic",
    Source.DYNAMIC_DEFAULT_BROKER: "all brokers, dynamic",
    Source.STATIC_BROKER: "server.properties",
    Source.DEFAULT: "default",
}


@dataclass(frozen=True, slots=True)
class TopicAnswers:
    """What brokers answered about one topic; partitions of which nothing is known are missing."""

    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Bytes by broker and partition."""
    configs: Sequence[DescribeConfigsResourceResult] | None = None
    silent: frozenset[int] = frozenset()
    """Live brokers that did not respond."""


def missing_topic(name: str) -> Json:
    """The answer for a topic that does not exist."""
    return {"name": name, "is_missing": True}


def topic_page(
    topic: TopicFacts,
    answers: TopicAnswers,
    figures: TopicFigures,
    consumers: Sequence[Json],
    program: str,
) -> Json:
    """`partitions` are arrays: number, leader, replicas, in-sync replicas, first offset, end,
    bytes of the leader's replica.
    """
    counts = [
        answers.ends[each.number] - answers.starts[each.number]
        for each in topic.partitions
        if each.number in answers.ends and each.number in answers.starts
    ]
    option = shlex.quote(f"--topic={topic.name}")
    return {
        "name": topic.name,
        "is_missing": False,
        "internal": is_internal(topic),
        **replication(topic),
        "bytes": figures.bytes,
        "rates": dict(figures.rates),
        "records": sum(counts) if counts else None,
        "without_offsets": len(topic.partitions) - len(counts),
        "partition_rows": [
            [
                each.number,
                each.leader,
                each.replicas,
                each.isr,
                answers.starts.get(each.number),
                answers.ends.get(each.number),
                None if each.leader is None else answers.sizes.get((each.leader, each.number)),
            ]
            for each in topic.partitions
        ],
        "configs": None if answers.configs is None else config_rows(answers.configs),
        "groups": consumers,
        "silent": sorted(answers.silent),
        "commands": {
            "describe": f"{program} topics --describe {option}",
            "configs": f"{program} configs --alter {option} --add-config KEY=VALUE",
        },
    }


def config_rows(entries: Iterable[DescribeConfigsResourceResult]) -> list[Json]:
    """The settings by name, those first that are not Kafka's defaults."""
    ordered = sorted(entries, key=lambda each: (each.config_source == Source.DEFAULT, each.name))
    return [
        {
            "name": each.name,
            "value": None if each.is_sensitive else each.value,
            "is_sensitive": each.is_sensitive,
            "source": _SOURCES.get(each.config_source, "unknown"),
            "source_name": next((other.name for other in each.synonyms), each.name),
            "is_default": each.config_source == Source.DEFAULT,
            "default": next(
                (other.value for other in each.synonyms if other.source == Source.DEFAULT), None
            ),
            "remark": remark_of(each.documentation),
        }
        for each in ordered
    ]
