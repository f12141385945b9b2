"""Requests about reassignments, and what becomes of the answers."""

from datetime import timedelta
from typing import Any

import pytest

from cluster.client.reassignment_requests import (
    OngoingReassignment,
    alter_reassignments,
    list_reassignments,
)
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

NO_TIME = timedelta(0)


class Broker:
    """Answers each request alike."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[tuple[ApiKey, Any]] = []

    def call(self, key: ApiKey, request: Any) -> Any:
        self.asked.append((key, request))
        return self._answer


def altered(*results: tuple[int, ErrorCode], code: ErrorCode = ErrorCode.none) -> Broker:
    return Broker(
        AlterPartitionReassignmentsResponse(
            throttle_time=NO_TIME,
            error_code=code,
            error_message="why",
            responses=(
                ReassignableTopicResponse(
                    name="t",
                    partitions=tuple(
                        ReassignablePartitionResponse(
                            partition_index=number, error_code=each, error_message=None
                        )
                        for number, each in results
                    ),
                ),
            ),
        )
    )


def test_reassignments_are_asked_for_by_topic() -> None:
    broker = altered((0, ErrorCode.none), (2, ErrorCode.invalid_replica_assignment))
    found = alter_reassignments(
        broker,  # type: ignore[arg-type]  # stands in for a client
        {Place("t", 0): [1, 2], Place("u", 1): None, Place("t", 2): []},
        may_change_factor=False,
    )
    ((key, request),) = broker.asked
    assert key is ApiKey.ALTER_PARTITION_REASSIGNMENTS
    assert request.allow_replication_factor_change is False
    assert [
        (topic.name, [(each.partition_index, each.replicas) for each in topic.partitions])
        for topic in request.topics
    ] == [("t", [(0, (1, 2)), (2, ())]), ("u", [(1, None)])]
    assert found[Place("t", 0)] is None
    refused = found[Place("t", 2)]
    assert refused is not None
    assert refused.code is ErrorCode.invalid_replica_assignment


@pytest.mark.parametrize(
    "broker",
    [
        altered(code=ErrorCode.cluster_authorization_failed),
        altered((0, ErrorCode.none), (1, ErrorCode.not_controller)),
        altered(code=ErrorCode.not_controller),
    ],
)
def test_a_refusal_of_the_whole_request_is_raised(broker: Broker) -> None:
    with pytest.raises(Refused):
        alter_reassignments(broker, {Place("t", 0): [1]})  # type: ignore[arg-type]


def listed(code: ErrorCode = ErrorCode.none) -> Broker:
    row = OngoingPartitionReassignment(
        partition_index=3, replicas=(4, 1, 2), adding_replicas=(4,), removing_replicas=(2,)
    )
    topics = (OngoingTopicReassignment(name="t", partitions=(row,)),)
    return Broker(
        ListPartitionReassignmentsResponse(
            throttle_time=NO_TIME, error_code=code, error_message=None, topics=topics
        )
    )


def test_ongoing_reassignments_are_listed_with_their_targets() -> None:
    broker = listed()
    found = list_reassignments(broker)  # type: ignore[arg-type]
    assert found == {Place("t", 3): OngoingReassignment((4, 1, 2), (4,), (2,))}
    assert found[Place("t", 3)].target == (4, 1)
    list_reassignments(broker, [Place("t", 3), Place("u", 0), Place("t", 5)])  # type: ignore[arg-type]
    (_, everything), (_, some) = broker.asked
    assert everything.topics is None
    assert [(each.name, each.partition_indexes) for each in some.topics] == [
        ("t", (3, 5)),
        ("u", (0,)),
    ]
    with pytest.raises(Refused):
        list_reassignments(listed(ErrorCode.not_controller))  # type: ignore[arg-type]
