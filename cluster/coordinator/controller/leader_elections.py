"""Requested elections: of preferred replicas, and unclean ones (KIP-460). Pure.

A partition's preferred replica is the first of its assignment. It may lead while it is live, in
sync, and in a working log directory with room; its election changes neither replicas nor ISR.
"""

import enum
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from cluster.coordinator.controller.elections import PARTITIONS_PER_STEP, RulesOf, elect
from cluster.model.cluster import ClusterState, PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from cluster.model.plan import Outcome

RETURNS_AT_ONCE: Final = 100
"""Partitions whose leadership returns in one step: each is without a leader for a few milliseconds
only, even if thousands return."""


_NOT_NEEDED: Final = Outcome(
    ErrorCode.election_not_needed, "Leader election not needed for topic partition."
)
_PREFERRED_NOT_AVAILABLE: Final = Outcome(
    ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
)
_NONE_ELIGIBLE: Final = Outcome(
    ErrorCode.eligible_leaders_not_available,
    "Eligible topic partition leaders are not available.",
)


class ElectionType(enum.IntEnum):
    """Numbers as in ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


Elected: TypeAlias = list[tuple[TopicPartition, Outcome]]


def can_return(state: PartitionState) -> bool:
    """Whether the preferred replica is in sync but another one leads."""
    return bool(state.replicas) and state.leader != state.replicas[0] in state.isr


def elect_preferred(state: PartitionState, live: Collection[BrokerId]) -> PartitionState | None:
    """The state in which the preferred replica leads; None if it leads already or may not."""
    if not can_return(state) or state.replicas[0] not in live:
        return None
    return replace(
        state,
        leader=state.replicas[0],
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
    )


def elect_asked(
    cluster: ClusterState,
    election: ElectionType,
    asked: Sequence[TopicPartition] | None,
    live: Collection[BrokerId],
    rules_of: RulesOf,
    changed: dict[TopicPartition, PartitionState],
    outcomes: Elected,
    *,
    only_needed: bool = False,
) -> Iterator[None]:
    """Elect leaders of the given partitions (None: of all), in steps; see `Plan.steps`.

    The outcomes are in the order of the request. For all partitions, and with `only_needed`, those
    that need no election are left out, as in Kafka. `live` excludes brokers that are about to stop.
    """
    is_of_all = asked is None or only_needed
    partitions = [each for each, _ in cluster.partitions()] if asked is None else asked
    for count, partition in enumerate(partitions, 1):
        outcome = _elect_one(cluster, election, partition, live, rules_of, changed)
        if not is_of_all or outcome.code is not ErrorCode.election_not_needed:
            outcomes.append((partition, outcome))
        if count % PARTITIONS_PER_STEP == 0:
            yield


def _elect_one(
    cluster: ClusterState,
    election: ElectionType,
    partition: TopicPartition,
    live: Collection[BrokerId],
    rules_of: RulesOf,
    changed: dict[TopicPartition, PartitionState],
) -> Outcome:
    state = cluster.partition(partition)
    if state is None:
        missing = "topic" if partition.topic not in cluster.topics else "partition"
        what = partition.topic if missing == "topic" else partition
        return Outcome(ErrorCode.unknown_topic_or_partition, f"No such {missing} as {what}")
    if partition in changed:  # the request names it twice
        return Outcome(ErrorCode.none)
    usable = cluster.usable(partition, live)
    new_state: PartitionState | None
    if election is ElectionType.PREFERRED:
        if state.leader == state.replicas[0]:
            return _NOT_NEEDED
        new_state = elect_preferred(state, cluster.with_room(partition, usable))
        refusal = _PREFERRED_NOT_AVAILABLE
    else:
        if state.has_leader:
            return _NOT_NEEDED
        min_insync = rules_of(partition.topic).min_insync_replicas
        new_state = elect(state, usable, unclean=True, min_insync=min_insync)
        refusal = _NONE_ELIGIBLE
    if new_state is None or not new_state.has_leader:
        return refusal
    changed[partition] = new_state
    return Outcome(ErrorCode.none)


def return_leaders(
    cluster: ClusterState,
    live: Collection[BrokerId],
    percentage: int,
    of: set[BrokerId],
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """Return leaderships to preferred replicas, RETURNS_AT_ONCE in each step; see `Plan.steps`.

    `of` limits the return to some brokers. If it is empty it is first filled with the brokers of
    whose preferred partitions others lead more than `percentage`
    (leader.imbalance.per.broker.percentage).
    """
    if not of:
        preferred: Counter[BrokerId] = Counter()
        elsewhere: Counter[BrokerId] = Counter()
        for count, (_, state) in enumerate(cluster.partitions(), 1):
            preferred[state.replicas[0]] += 1
            elsewhere[state.replicas[0]] += state.leader != state.replicas[0]
            if count % PARTITIONS_PER_STEP == 0:
                yield
        of |= {
            broker
            for broker, all_of_it in preferred.items()
            if broker in live and 100 * elsewhere[broker] > percentage * all_of_it
        }
    for count, (partition, state) in enumerate(cluster.partitions(), 1):
        if len(changed) >= RETURNS_AT_ONCE:
            return
        if state.replicas[0] in of:
            usable = cluster.with_room(partition, cluster.usable(partition, live))
            new_state = elect_preferred(state, usable)
            if new_state is not None:
                changed[partition] = new_state
        if count % PARTITIONS_PER_STEP == 0:
            yield
