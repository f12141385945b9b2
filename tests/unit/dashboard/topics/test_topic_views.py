"""The list of topics and one topic, from the brokers' answers and figures."""

import json
from typing import Any

from cluster.client.topic_requests import PartitionFacts, TopicFacts
from cluster.config.effect import documentation, without_effect
from cluster.config.snapshot import Source
from cluster.dashboard.topics.broker_figures import BrokerFigures, TopicFigures, consumers_of
from cluster.dashboard.topics.topic_list import topic_list
from cluster.dashboard.topics.topic_page import TopicAnswers, config_rows, topic_page
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.kafka_names import TOPIC_METRICS
from cluster.metrics.stats_reader import Stats
from cluster.model.topics import METRICS_TOPIC
from cluster.protocol.messages import DescribeConfigsResourceResult, DescribeConfigsSynonym
from cluster.views.client_states import ALIVE, DEAD, BrokerStats
from cluster.views.group_lags import GroupLags

NOTHING = {metric.key: 0 for metric in TOPIC_METRICS}
NO_FIGURES = BrokerFigures([])


def reading(
    number: int,
    now: dict[str, dict[str, int]],
    before: dict[str, dict[str, int]] | None = None,
    *,
    state: str = ALIVE,
    without_row: int = 0,
) -> tuple[BrokerStats, Stats | None]:
    """A broker's figures by topic, and those of a second before."""

    def stats(written_ms: int, topics: dict[str, dict[str, int]]) -> Stats:
        values: dict[str, float] = {BY_KEY["TopicsWithoutRow"].name: without_row}
        rows = {topic: NOTHING | figures for topic, figures in topics.items()}
        return Stats(f"broker-{number}", 1, 0, 0, written_ms, values, [], topics=rows)

    former = None if before is None else stats(1_000, before)
    return BrokerStats(number, state, 0, stats(2_000, now)), former


def topic(name: str, *partitions: PartitionFacts, is_internal: bool = False) -> TopicFacts:
    return TopicFacts(name, is_internal, partitions)


FINE = PartitionFacts(0, 1, (1, 2), (1, 2))
LAGGING = PartitionFacts(1, 1, (1, 2), (1,))
OFFLINE = PartitionFacts(2, None, (2,), ())


def test_a_topic_in_the_list_has_the_figures_of_all_its_brokers() -> None:
    figures = BrokerFigures(
        [
            reading(
                1,
                {"a": {"Size": 70, "BytesInPerSec": 500, "MessagesInPerSec": 50}},
                {"a": {"BytesInPerSec": 200, "MessagesInPerSec": 20}},
            ),
            reading(2, {"a": {"Size": 30, "BytesOutPerSec": 9}}, {"a": {}}),
        ]
    )
    (row,) = topic_list([topic("a", FINE, LAGGING)], figures, {"a": "compact"})["topics"]
    assert row == {
        "name": "a",
        "internal": False,
        "partitions": 2,
        "replication_factor": 2,
        "replicas": 4,
        "in_sync": 3,
        "under_replicated": 1,
        "offline": 0,
        "bytes": 100,
        "in": 300.0,
        "out": 9.0,
        "records": 30.0,
        "policy": "compact",
    }


def test_internal_topics_are_kafkas_and_milenas_own() -> None:
    topics = [
        topic("__consumer_offsets", is_internal=True),
        topic(METRICS_TOPIC),
        topic("__mine"),
    ]
    rows = topic_list(topics, NO_FIGURES, {})["topics"]
    assert [each["internal"] for each in rows] == [True, True, False]


def test_figures_that_a_broker_has_no_row_for_are_not_known() -> None:
    readings = [
        reading(1, {"a": {"Size": 5, "BytesInPerSec": 8}}, {"a": {}}),
        reading(2, {"_other": {"Size": 900}}, {"_other": {}}, without_row=3),
    ]
    found = BrokerFigures(readings).of(topic("a", FINE))
    assert (found.bytes, found.rates["in"]) == (None, None)
    found = BrokerFigures(readings, {2: {"a": 7}}).of(topic("a", FINE))
    assert (found.bytes, found.rates["in"]) == (12, None)
    elsewhere = PartitionFacts(0, 1, (1,), (1,))
    assert BrokerFigures(readings).of(topic("a", elsewhere)).rates["in"] == 8.0
    assert topic_list([topic("a", FINE)], BrokerFigures(readings), {})["without_rates"] == 1


def test_a_dead_broker_has_no_figures_and_a_new_one_no_rates() -> None:
    readings = [
        reading(1, {"a": {"Size": 5}}),
        reading(2, {"a": {"Size": 90, "BytesInPerSec": 8}}, {"a": {}}, state=DEAD),
    ]
    found = BrokerFigures(readings).of(topic("a", FINE))
    assert (found.bytes, found.rates) == (5, {"in": None, "out": None, "records": None})
    assert NO_FIGURES.of(topic("a", FINE)).bytes is None
    assert topic_list([topic("a", FINE)], BrokerFigures(readings), {})["without_rates"] == 0


def entry(name: str, value: str | None, source: int, *others: Any, **fields: Any) -> Any:
    synonyms = tuple(
        DescribeConfigsSynonym(name=synonym, value=text, source=at) for synonym, text, at in others
    )
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=fields.pop("is_sensitive", False),
        synonyms=synonyms,
        documentation=fields.pop("documentation", None),
    )


def test_a_topics_page() -> None:
    answers = TopicAnswers(
        starts={0: 10, 1: 0},
        ends={0: 25, 1: 4},
        sizes={(1, 0): 700, (2, 0): 650, (1, 1): 40},
        silent=frozenset({2}),
    )
    rates = {"in": 1.0, "out": 0.0, "records": 2.0}
    page = topic_page(
        topic("it's", FINE, LAGGING, OFFLINE), answers, TopicFigures(99, rates), [], "milena"
    )
    assert page["partition_rows"] == [
        [0, 1, (1, 2), (1, 2), 10, 25, 700],
        [1, 1, (1, 2), (1,), 0, 4, 40],
        [2, None, (2,), (), None, None, None],
    ]
    assert (page["records"], page["without_offsets"], page["offline"]) == (19, 1, 1)
    assert (page["bytes"], page["rates"], page["silent"]) == (99, rates, [2])
    assert page["configs"] is None
    assert page["commands"]["describe"] == """milena topics --describe '--topic=it'"'"'s'"""
    json.dumps(page, allow_nan=False)


def test_records_are_not_known_without_any_offset() -> None:
    page = topic_page(topic("a", FINE), TopicAnswers(), TopicFigures(None, {}), [], "milena")
    assert (page["records"], page["without_offsets"]) == (None, 1)


def test_configs_that_are_not_defaults_come_first_with_their_source() -> None:
    lacking = documentation("What it is.", without_effect("there is no such thing"))
    rows = config_rows(
        [
            entry("a.default", "1", Source.DEFAULT, ("a.default", "1", Source.DEFAULT)),
            entry(
                "retention.ms",
                "5",
                Source.STATIC_BROKER,
                ("log.retention.ms", "5", Source.STATIC_BROKER),
                ("log.retention.hours", "168", Source.DEFAULT),
            ),
            entry("cleanup.policy", "<b>", Source.DYNAMIC_TOPIC, documentation=lacking),
            entry("x.secret", "s3cret", Source.DYNAMIC_BROKER, is_sensitive=True),
            entry("y", "1", 99),
        ]
    )
    assert [each["name"] for each in rows] == [
        *("cleanup.policy", "retention.ms", "x.secret", "y", "a.default"),
    ]
    assert [each["source"] for each in rows] == [
        *("topic", "server.properties", "broker, dynamic", "unknown", "default"),
    ]
    assert (rows[1]["source_name"], rows[1]["default"]) == ("log.retention.ms", "168")
    assert rows[0]["remark"].endswith("there is no such thing")
    assert "s3cret" not in json.dumps(rows)


def group(name: str, *partitions: tuple[str, int, int | None]) -> GroupLags:
    fields = {"group": name, "state": "Stable", "members": 1, "lag": 0}
    lags: Any = [{"topic": at, "partition": number, "lag": lag} for at, number, lag in partitions]
    return GroupLags(fields, lags)


def test_consumers_are_the_groups_with_offsets_in_the_topic() -> None:
    found = consumers_of(
        "a",
        [
            group("elsewhere", ("b", 0, 9)),
            group("near", ("a", 0, 1), ("b", 0, 500)),
            group("behind", ("a", 0, 7), ("a", 1, 4), ("a", 2, None)),
            group("lost", ("a", 0, None)),
        ],
    )
    assert [(each["group"], each["lag"], each["unknown"]) for each in found] == [
        ("behind", 11, 1),
        ("near", 1, 0),
        ("lost", None, 1),
    ]
    assert found[0]["partitions"] == 3
