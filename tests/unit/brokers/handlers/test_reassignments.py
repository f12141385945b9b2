"""AlterPartitionReassignments and ListPartitionReassignments."""

from dataclasses import replace
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import request

DONE = Outcome(ErrorCode.none)
T_0, T_2, U_1 = (TopicPartition(*each) for each in (("t", 0), ("t", 2), ("u", 1)))


def alteration(*topics: tuple[str, dict[int, list[int] | None]], version: int = 1) -> Any:
    return request(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        version,
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": number, "replicas": replicas}
                    for number, replicas in partitions.items()
                ],
            }
            for name, partitions in topics
        ],
        allow_replication_factor_change=False,
        timeout=7_000,
    )


def altered(answer: Any) -> list[tuple[str, list[tuple[int, int, str | None]]]]:
    return [
        (topic.name, [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions])
        for topic in answer.responses
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_the_controller_reassigns_partitions(stage: HandlerStage, version: int) -> None:
    client = stage.connect()
    client.send(
        alteration(("t", {2: [1, 2], 0: None}), ("none", {}), ("u", {1: []}), version=version)
    )

    asked = stage.controller.take()
    assert asked.subjects == [(T_2, (1, 2)), (T_0, None), (U_1, ())]
    assert (asked.timeout_ms, asked.may_change_factor) == (7_000, version == 0)
    asked.on_done(
        DONE,
        [
            (T_2, DONE),
            (T_0, Outcome(ErrorCode.no_reassignment_in_progress)),
            (U_1, Outcome(ErrorCode.invalid_replica_assignment, "why")),
        ],
    )

    answer = client.receive()
    assert altered(answer) == [
        ("t", [(2, 0, None), (0, ErrorCode.no_reassignment_in_progress, None)]),
        ("none", []),
        ("u", [(1, ErrorCode.invalid_replica_assignment, "why")]),
    ]
    assert (answer.error_code, answer.error_message) == (0, None)
    if version == 1:
        assert answer.allow_replication_factor_change is False


def test_a_topic_that_a_request_repeats_is_answered_as_often(stage: HandlerStage) -> None:
    client = stage.connect()
    client.send(alteration(("t", {0: [1]}), ("u", {1: [1]}), ("t", {2: [1], 0: [2]})))
    asked = stage.controller.take()
    refused = Outcome(ErrorCode.invalid_replica_assignment, "second")
    outcomes = [DONE, DONE, DONE, refused]
    asked.on_done(DONE, [(at, one) for (at, _), one in zip(asked.subjects, outcomes, strict=True)])
    assert altered(client.receive()) == [
        ("t", [(0, 0, None)]),
        ("u", [(1, 0, None)]),
        ("t", [(2, 0, None), (0, ErrorCode.invalid_replica_assignment, "second")]),
    ]


def test_an_empty_reassignment_is_answered_at_once(stage: HandlerStage) -> None:
    nothing = stage.connect().call(alteration())
    assert (nothing.error_code, nothing.error_message, nothing.responses) == (0, "", ())
    topic = stage.connect().call(alteration(("t", {})))
    assert (topic.error_code, topic.error_message, altered(topic)) == (0, None, [("t", [])])
    assert stage.controller.asked == []


def listed(stage: HandlerStage, topics: list[tuple[str, list[int]]] | None) -> Any:
    asked = topics and [{"name": name, "partition_indexes": numbers} for name, numbers in topics]
    return stage.connect().call(
        request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=asked, timeout=1_000)
    )


def ongoing(answer: Any) -> list[tuple[str, list[tuple[Any, ...]]]]:
    return [
        (
            topic.name,
            [
                (p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
                for p in topic.partitions
            ],
        )
        for topic in answer.topics
    ]


def test_ongoing_reassignments_are_listed(stage: HandlerStage) -> None:
    state = replace(
        a_partition([BROKER, OTHER]), adding=(BrokerId(BROKER),), removing=(BrokerId(OTHER),)
    )
    stage.controller.ongoing = {U_1: state, T_2: state, T_0: state}
    row = ((BROKER, OTHER), (BROKER,), (OTHER,))

    everything = listed(stage, None)
    some = listed(stage, [("u", [7, 1]), ("x", [0]), ("t", [1]), ("u", [1, 1])])

    assert (everything.error_code, everything.error_message) == (0, None)
    assert ongoing(everything) == [("t", [(0, *row), (2, *row)]), ("u", [(1, *row)])]
    assert ongoing(some) == [("u", [(1, *row)]), ("u", [(1, *row), (1, *row)])]
    assert ongoing(listed(stage, [])) == []


def test_a_long_list_of_reassignments_is_gathered_in_slices(stage: HandlerStage) -> None:
    state = replace(a_partition([BROKER, OTHER]), adding=(BrokerId(OTHER),))
    stage.controller.ongoing = {TopicPartition("t", number): state for number in range(1_000)}
    ((name, partitions),) = ongoing(listed(stage, None))
    assert name == "t"
    assert [each[0] for each in partitions] == list(range(1_000))


def test_a_broker_that_is_not_the_controller_lists_no_reassignments(stage: HandlerStage) -> None:
    stage.controller.ongoing = {T_0: replace(a_partition([BROKER]), adding=(BrokerId(BROKER),))}
    stage.controller.is_active = False
    answer = listed(stage, None)
    assert (answer.error_code, answer.topics) == (ErrorCode.not_controller, ())
