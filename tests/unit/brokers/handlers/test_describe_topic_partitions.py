"""DescribeTopicPartitions: pages of partitions, and what is said of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.metrics.kafka_names import errors_of
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import read_memory
from cluster.model.cluster import OfflinePartitions
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage, StageConnection
from tests.support.kafka_wire import request

ALL = [BROKER, OTHER, THIRD]


def page(*names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    return request(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=cursor and {"topic_name": cursor[0], "partition_index": cursor[1]},
    )


def ask(client: StageConnection, *names: str, **others: Any) -> Any:
    return client.call(page(*names, **others))


def shape(answer: Any) -> list[tuple[str, ErrorCode, list[int]]]:
    return [
        (topic.name, topic.error_code, [each.partition_index for each in topic.partitions])
        for topic in answer.topics
    ]


def next_of(answer: Any) -> tuple[str, int] | None:
    cursor = answer.next_cursor
    return cursor and (cursor.topic_name, cursor.partition_index)


@pytest.fixture
def client(stage: HandlerStage) -> StageConnection:
    stage.update(*(a_topic(name, *[a_partition(ALL)] * 4) for name in ("c", "a", "b")))
    return stage.connect()


def test_a_partition_is_described_as_without_eligible_leader_replicas(stage: HandlerStage) -> None:
    topic = a_topic("t", a_partition(ALL), a_partition([OTHER, THIRD], isr=[THIRD]))
    stage.update(topic, offline=[OfflinePartitions(THIRD, topic.topic_id, (1,))])

    (described,) = ask(stage.connect(), "t").topics

    assert (described.topic_id, described.is_internal) == (topic.topic_id, False)
    first, second = described.partitions
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, BROKER, 0)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == (
        (1, 2, 3),
        (1, 2, 3),
        (),
    )
    assert (second.isr_nodes, second.offline_replicas) == ((THIRD,), (THIRD,))
    assert first.eligible_leader_replicas == first.last_known_elr == ()


def test_a_partition_whose_leader_is_dead_has_no_leader_and_no_error(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([THIRD, OTHER])), brokers=[BROKER, OTHER])

    ((partition,),) = (topic.partitions for topic in ask(stage.connect(), "t").topics)

    assert (partition.error_code, partition.leader_id) == (0, -1)
    assert partition.offline_replicas == (THIRD,)


def test_pages_follow_each_other_by_the_cursor(client: StageConnection) -> None:
    pages, cursor, found = 0, None, []
    while pages == 0 or cursor is not None:
        answer = ask(client, limit=5, cursor=cursor)
        found += [(name, each) for name, _, numbers in shape(answer) for each in numbers]
        cursor = next_of(answer)
        pages += 1

    assert found == [(name, number) for name in "abc" for number in range(4)]
    assert pages == 3


@pytest.mark.parametrize(
    ("limit", "cursor", "found", "next_cursor"),
    [
        (5, None, [("a", [0, 1, 2, 3]), ("b", [0])], ("b", 1)),
        (4, None, [("a", [0, 1, 2, 3])], ("b", 0)),
        (0, None, [("a", [0])], ("a", 1)),
        (-5, ("a", 3), [("a", [3])], ("b", 0)),
        (9, ("b", 4), [("b", []), ("c", [0, 1, 2, 3])], None),
        (9, ("bb", 2), [("c", [0, 1, 2, 3])], None),
        (9, ("zz", 0), [], None),
    ],
)
def test_a_page_ends_where_kafka_ends_it(
    client: StageConnection,
    limit: int,
    cursor: tuple[str, int] | None,
    found: Sequence[tuple[str, list[int]]],
    next_cursor: tuple[str, int] | None,
) -> None:
    answer = ask(client, limit=limit, cursor=cursor)
    assert [(name, numbers) for name, _, numbers in shape(answer)] == found
    assert next_of(answer) == next_cursor


def test_missing_topics_have_errors_and_the_rest_is_described(client: StageConnection) -> None:
    answer = ask(client, "c", "nope", "bad name", "c")
    assert shape(answer) == [
        ("bad name", ErrorCode.invalid_topic_exception, []),
        ("c", ErrorCode.none, [0, 1, 2, 3]),
        ("nope", ErrorCode.unknown_topic_or_partition, []),
    ]


@pytest.mark.parametrize("cursor", [("b", -1), ("d", 0)])
def test_a_cursor_outside_of_the_request_is_refused(
    client: StageConnection, cursor: tuple[str, int]
) -> None:
    answer = ask(client, "a", "b", cursor=cursor)
    assert shape(answer) == [(name, ErrorCode.invalid_request, []) for name in "ab"]
    assert ask(client, cursor=("b", -1)).topics == ()


def test_the_brokers_limit_holds_and_long_answers_are_made_in_slices(tmp_path: Path) -> None:
    with HandlerStage(tmp_path, {"max.request.partition.size.limit": "900"}) as stage:
        stage.update(*(a_topic(f"t{each}", *[a_partition(ALL)] * 300) for each in range(4)))
        client = stage.connect()
        client.send(page())
        assert client.is_waiting, "a long answer takes several turns"
        while client.is_waiting:
            stage.turn()
        answer = client.receive()
    assert [(name, len(numbers)) for name, _, numbers in shape(answer)] == [
        (f"t{each}", 300) for each in range(3)
    ]
    assert next_of(answer) == ("t3", 0)


def test_errors_are_counted_once_per_topic(tmp_path: Path) -> None:
    counters = BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])
    with HandlerStage(tmp_path, counters=counters) as stage:
        stage.update(a_topic("t", a_partition(ALL)))
        answer = ask(stage.connect(), "t", "nope")
    assert [code for _, code, _ in shape(answer)] == [ErrorCode.unknown_topic_or_partition, 0]
    counters.store()
    values = read_memory(memoryview(counters.stats.memory)).values
    assert values[errors_of("DescribeTopicPartitions", "UNKNOWN_TOPIC_OR_PARTITION")] == 1
