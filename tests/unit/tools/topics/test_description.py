"""The layout of `topics --describe`, character by character."""

from dataclasses import replace

import pytest

from cluster.client.reassignment_requests import OngoingReassignment
from cluster.tools.topics.description import (
    Chosen,
    PartitionDescription,
    TopicDescription,
)

WHOLE = PartitionDescription(0, leader=1, replicas=(1, 2, 3), isr=(1, 2, 3))
LAGGING = PartitionDescription(1, leader=2, replicas=(2, 3, 1), isr=(2,))
OFFLINE = PartitionDescription(2, leader=None, replicas=(3, 1, 2), isr=(3,))
TOPIC = TopicDescription(
    name="orders",
    id="NPmZHyhbR9y00wMglMH2sg",
    configs={"min.insync.replicas": "2", "segment.bytes": "1073741824"},
    partitions=(WHOLE, LAGGING, OFFLINE),
)


def test_the_header_is_kafkas():
    assert TOPIC.header() == (
        "Topic: orders\tTopicId: NPmZHyhbR9y00wMglMH2sg\tPartitionCount: 3\tReplicationFactor: 3"
        "\tConfigs: min.insync.replicas=2,segment.bytes=1073741824"
    )


def test_a_partition_line_is_kafkas():
    assert WHOLE.line("orders") == (
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3"
        "\tElr: \tLastKnownElr: "
    )


MOVING = PartitionDescription(
    0, 1, (3, 1, 2), (1, 2), OngoingReassignment((3, 1, 2), adding=(3,), removing=(2,))
)


def test_a_partition_that_is_being_moved_names_the_replicas_it_gains_and_loses():
    assert MOVING.line("orders") == (
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 3,1,2\tIsr: 1,2"
        "\tAdding Replicas: 3\tRemoving Replicas: 2\tElr: \tLastKnownElr: "
    )
    assert not MOVING.is_under_replicated
    assert replace(MOVING, isr=(1,)).is_under_replicated
    topic = replace(TOPIC, partitions=(MOVING,))
    assert topic.replication_factor == 2
    (told,) = topic.as_json([MOVING])["partitions"]
    assert (told["adding"], told["removing"]) == ([3], [2])


def test_a_missing_leader_is_none():
    assert "\tLeader: none\t" in OFFLINE.line("orders")


AT_MIN = PartitionDescription(3, leader=1, replicas=(1, 2, 3), isr=(1, 2))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Chosen(), ()),
        (Chosen(under_replicated=True), (LAGGING, OFFLINE, AT_MIN)),
        (Chosen(unavailable=True), (OFFLINE,)),
        (Chosen(under_min_isr=True), (LAGGING, OFFLINE)),
        (Chosen(at_min_isr=True), (AT_MIN,)),
        (Chosen(unavailable=True, at_min_isr=True), (OFFLINE, AT_MIN)),
    ],
)
def test_partitions_are_chosen_by_their_trouble(wanted, found):
    topic = replace(TOPIC, partitions=(*TOPIC.partitions, AT_MIN), min_isr=2)
    assert topic.chosen_partitions(wanted) == found


def test_a_partition_without_a_leader_is_under_its_minimum_however_many_are_in_sync():
    assert replace(OFFLINE, isr=(3, 1, 2)).is_under_min_isr(1)


def test_json_counts_all_partitions_and_lists_the_chosen():
    told = TOPIC.as_json([OFFLINE])
    assert told["partition_count"] == 3
    assert told["partitions"] == [
        {"partition": 2, "leader": None, "replicas": [3, 1, 2], "isr": [3]}
    ]
