"""Checks and plans for creating, deleting and enlarging topics. Pure.

Error codes and their order are those of Kafka's admin requests (CreateTopics, DeleteTopics,
CreatePartitions).
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from cluster.coordinator.controller.assignment import assign_replicas
from cluster.model.cluster import ClusterState, PartitionState, TopicState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from cluster.model.plan import Outcome, Plan
from cluster.model.topics import NewTopic, check_topic_name

Admit = Callable[[str, int], None]
"""Called for each topic that passed the checks, with the number of partitions that it gains or
loses; raises Refused(throttling_quota_exceeded) if the client exceeds its quota (KIP-599)."""


def everything(_topic: str, _partition_count: int) -> None:
    """Admits every change."""


PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""The limit of Kafka's controller: a larger count is considered a typing mistake."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The settings that plans use."""

    default_partition_count: int
    default_replication_factor: int
    check_configs: Callable[[Mapping[str, str]], object]
    """Raises Refused(invalid_config)."""
    min_insync_replicas: Callable[[Mapping[str, str]], int] = lambda _configs: 1
    """The value that follows from a topic's overrides and the settings."""


def plan_new_topic(
    state: ClusterState,
    new: NewTopic,
    rules: TopicRules,
    random: Random,
    topic_id: uuid.UUID,
    planned: Sequence[TopicState] = (),
) -> TopicState:
    """The new topic with leaders. Raises Refused with the code for the client.

    `planned` are the topics that the same request creates before it.
    """
    check_topic_name(new.name)
    _check_is_new(new.name, [*state.topics, *(topic.name for topic in planned)])
    rules.check_configs(new.configs)
    planned_count = sum(len(topic.partitions) for topic in planned)
    racks = {broker.id: broker.rack for broker in state.brokers.values()}
    if new.assignment:
        if new.partition_count != -1 or new.replication_factor != -1:
            raise Refused(
                ErrorCode.invalid_request,
                "Both numPartitions or replicationFactor and replicasAssignments were set."
                " Both cannot be used at the same time.",
            )
        assignment = dict(new.assignment)
        _check_count(planned_count + len(assignment))
        _check_assignment(assignment, 0, racks)
    else:
        count, factor = new.partition_count, new.replication_factor
        if count == -1:
            count = rules.default_partition_count
        _check_count(planned_count + count)
        if factor == -1:
            factor = rules.default_replication_factor
        assignment = assign_replicas(_those_with_room(racks, factor, state), count, factor, random)
    first_states = _first_states(assignment.values(), state)
    return TopicState(
        new.name,
        topic_id,
        dict(new.configs),
        {number: first_states[replicas] for number, replicas in assignment.items()},
    )


def plan_more_partitions(
    state: ClusterState,
    name: str,
    total_count: int,
    assignments: Sequence[tuple[BrokerId, ...]] | None,
    random: Random,
    planned_count: int = 0,
) -> dict[TopicPartition, PartitionState]:
    """The partitions to add to reach `total_count`. Raises Refused.

    The same request adds `planned_count` partitions already.
    """
    topic = state.topics.get(name)
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
    existing = len(topic.partitions)
    if total_count <= existing:
        reason = (
            f"Topic already has {existing} partition(s)."
            if total_count == existing
            else f"The topic {name} currently has {existing} partition(s); {total_count} would"
            " not be an increase."
        )
        raise Refused(ErrorCode.invalid_partitions, reason)
    _check_count(planned_count + total_count - existing)
    racks = {broker.id: broker.rack for broker in state.brokers.values()}
    if any(number not in topic.partitions for number in range(existing)):
        raise Refused(
            ErrorCode.unknown_server_error,
            f"Unexpected existing replica assignment for topic '{name}': its partitions are"
            f" {sorted(topic.partitions)}.",
        )
    first_replicas = topic.partitions[0].replicas if existing else ()
    if not first_replicas:
        raise Refused(
            ErrorCode.unknown_server_error,
            f"Unexpected existing replica assignment for topic '{name}': partition 0 has none.",
        )
    if assignments is None:
        order = sorted(racks)
        at_or_after = (at for at, broker in enumerate(order) if broker >= first_replicas[0])
        start = next(at_or_after, 0)  # as Kafka's AdminZkClient
        planned = assign_replicas(
            racks, total_count - existing, len(first_replicas), random, existing, start
        )
    else:
        if len(assignments) != total_count - existing:
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Increasing the number of partitions by {total_count - existing} but"
                f" {len(assignments)} assignments provided.",
            )
        planned = dict(enumerate(assignments, start=existing))
        _check_assignment(planned, existing, racks, len(first_replicas))
    first_states = _first_states(planned.values(), state)
    return {
        TopicPartition(name, number): first_states[replicas] for number, replicas in planned.items()
    }


def plan_create_topics(
    state: ClusterState,
    topics: Sequence[NewTopic],
    rules: TopicRules,
    random: Random,
    new_topic_id: Callable[[], uuid.UUID],
    admit: Admit = everything,
) -> tuple[Plan, dict[str, Outcome], dict[str, TopicState]]:
    """One plan for all topics that can be created, and the outcome by name.

    The third result holds every topic that passed the checks, for answers and `validate_only`.
    """
    plan = Plan()
    outcomes: dict[str, Outcome] = {}
    planned: dict[str, TopicState] = {}
    times = Counter(topic.name for topic in topics)
    for new in topics:
        try:
            if times[new.name] > 1:
                raise Refused(ErrorCode.invalid_request, "Duplicate topic name.")
            topic = plan_new_topic(state, new, rules, random, new_topic_id(), plan.created)
            admit(new.name, len(topic.partitions))
        except Refused as refused:
            outcomes[new.name] = Outcome(refused.code, refused.detail)
        else:
            plan.created.append(topic)
            planned[new.name] = topic
            outcomes[new.name] = Outcome(ErrorCode.none)
    return plan, outcomes, planned


def _check_count(partition_count: int) -> None:
    if partition_count > PARTITIONS_PER_REQUEST_MAX:
        raise Refused(
            ErrorCode.policy_violation, "Excessively large number of partitions per request."
        )


def _check_is_new(name: str, existing: Sequence[str]) -> None:
    if name in existing:
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    # Metric names replace '.' by '_', so two such topics would share their metrics.
    if "." in name or "_" in name:
        flat = name.replace(".", "_")
        twin = next((other for other in existing if other.replace(".", "_") == flat), None)
        if twin is not None:
            raise Refused(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topics: {twin}",
            )


def _check_assignment(
    assignment: Mapping[int, tuple[BrokerId, ...]],
    first_partition: int,
    live: Mapping[BrokerId, str | None],
    replication_factor: int | None = None,
) -> None:
    expected = range(first_partition, first_partition + len(assignment))
    if sorted(assignment) != list(expected):
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            "Partitions should be a consecutive 0-based integer sequence",
        )
    factors = {len(replicas) for replicas in assignment.values()}
    if replication_factor is not None:
        factors.add(replication_factor)
    if factors == {0} or len(factors) != 1:
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            "All partitions should have the same number of replicas, and at least one.",
        )
    for number, replicas in assignment.items():
        if len(set(replicas)) != len(replicas):
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Duplicate brokers in the replica list of partition {number}: {list(replicas)}",
            )
        unknown = sorted(set(replicas) - set(live))
        if unknown:
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Unknown or dead broker(s) {unknown} in the replica list of partition {number}.",
            )


def _those_with_room(
    racks: Mapping[BrokerId, str | None], replication_factor: int, state: ClusterState
) -> Mapping[BrokerId, str | None]:
    """The brokers with room on a disk if they are enough, else all."""
    found = {broker: rack for broker, rack in racks.items() if broker not in state.full_brokers}
    return found if len(found) >= replication_factor else racks


def _and_others(full: Sequence[BrokerId]) -> str:
    if not full:
        return ""
    return f"; no room on broker{'s'[: len(full) > 1]} {', '.join(map(str, sorted(full)))} either"


def _first_states(
    assignments: Iterable[tuple[BrokerId, ...]], state: ClusterState
) -> dict[tuple[BrokerId, ...], PartitionState]:
    """The first states by replicas: partitions with the same replicas share one object.

    Raises Refused if no replica has room on its disk.
    """
    states = {}
    for replicas in set(assignments):
        live = tuple(broker for broker in replicas if broker in state.brokers)
        leader = next((broker for broker in live if broker not in state.full_brokers), None)
        if leader is None:
            raise Refused(
                ErrorCode.kafka_storage_error,
                f"there is no room for a new partition: broker {live[0]}:"
                f" {state.full_brokers[live[0]]}{_and_others(live[1:])}. Delete topics or records,"
                " or free space on the disk",
            )
        states[replicas] = PartitionState(replicas, live, leader, LeaderEpoch(0), PartitionEpoch(0))
    return states
