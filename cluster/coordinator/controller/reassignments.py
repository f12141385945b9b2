"""Moves partitions to other replicas while they are in use (KIP-455). Pure.

A partition that is being moved has the replicas of its target, then those that it leaves. Leader,
ISR and leader epoch stay as they are until every replica of the target is in sync; then the others
go, in one change. `PartitionState.adding` and `removing` record how far it is, so a new controller
goes on from there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from cluster.coordinator.controller.elections import ElectionRules, RulesOf, with_replicas
from cluster.coordinator.controller.returned_replicas import best_unclean
from cluster.model.cluster import ClusterState, PartitionState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from cluster.model.plan import Outcome

PARTITIONS_PER_STEP: Final = 50
FINISHED_AT_ONCE: Final = 200
"""Reassignments that are completed in one operation: other operations wait for it."""

Asked: TypeAlias = Sequence[tuple[TopicPartition, tuple[BrokerId, ...] | None]]
"""Partitions with the replicas that they should have; None cancels a reassignment."""
Answered: TypeAlias = list[tuple[TopicPartition, Outcome]]


def move(
    state: PartitionState,
    target: tuple[BrokerId, ...],
    live: Collection[BrokerId],
    usable: Collection[BrokerId],
    rules: ElectionRules,
) -> PartitionState | None:
    """The state in which the partition is on its way to other replicas, or has them already.

    None if nothing changes. The original replicas stay those from before the first reassignment
    that is not completed, as in Kafka's ZooKeeper mode. `usable` are the `live` brokers whose
    replica could lead. Raises Refused.
    """
    original = state.original_replicas
    check_target(target, state.replicas, live)
    leaving = tuple(broker for broker in original if broker not in target)
    adding = tuple(broker for broker in target if broker not in original)
    moving = replace(state, adding=adding, removing=leaving)
    moving = _cut(moving, (*target, *leaving), usable, rules)
    moving = complete(moving, usable, rules) or moving
    if replace(moving, partition_epoch=state.partition_epoch) == state:
        return None
    return _one_write(state, moving)


def cancel(
    state: PartitionState, usable: Collection[BrokerId], rules: ElectionRules
) -> PartitionState:
    """The state without the replicas that were being added. Raises Refused."""
    if not state.is_reassigning:
        raise Refused(ErrorCode.no_reassignment_in_progress)
    settled = replace(state, adding=(), removing=())
    return _one_write(state, _cut(settled, state.original_replicas, usable, rules))


def complete(
    state: PartitionState, usable: Collection[BrokerId], rules: ElectionRules
) -> PartitionState | None:
    """The state in which the partition has the replicas of its target only.

    None while one of these is not in sync, or none of them could lead.
    """
    target = tuple(broker for broker in state.replicas if broker not in state.removing)
    if not state.is_reassigning or not set(target) <= set(state.isr):
        return None
    if not state.has_leader or not any(broker in usable for broker in target):
        return None
    there = replace(state, adding=(), removing=())
    return _one_write(state, with_replicas(there, target, usable, rules.min_insync_replicas))


def plan_moves(
    cluster: ClusterState,
    asked: Asked,
    usable_of: Callable[[TopicPartition], Collection[BrokerId]],
    rules_of: RulesOf,
    changed: dict[TopicPartition, PartitionState],
    outcomes: Answered,
    *,
    may_change_factor: bool,
) -> Iterator[None]:
    """Start, change or cancel the reassignment of each partition, in steps; see `Plan.steps`.

    The outcomes are in the order of the request. Without `may_change_factor` a partition keeps its
    number of replicas (KIP-860).
    """
    for count, (partition, target) in enumerate(asked, 1):
        try:
            old = cluster.partition(partition)
            if old is None:
                raise Refused(
                    ErrorCode.unknown_topic_or_partition,
                    f"Unable to find a topic named {partition.topic}."
                    if partition.topic not in cluster.topics
                    else f"Unable to find partition {partition.topic}:{partition.partition}.",
                )
            state = changed.get(partition, old)
            usable, rules = usable_of(partition), rules_of(partition.topic)
            new: PartitionState | None
            if target is None:
                new = cancel(state, usable, rules)
            else:
                if not may_change_factor:
                    check_target(target, state.original_replicas, cluster.brokers)
                    _check_factor(state, target)
                new = move(state, target, cluster.brokers, usable, rules)
        except Refused as refused:
            outcomes.append((partition, Outcome(refused.code, refused.detail or None)))
        else:
            if new is not None:
                changed[partition] = _one_write(old, new)
            outcomes.append((partition, Outcome(ErrorCode.none)))
        if count % PARTITIONS_PER_STEP == 0:
            yield


def plan_completions(
    cluster: ClusterState,
    due: Iterable[TopicPartition],
    usable_of: Callable[[TopicPartition], Collection[BrokerId]],
    rules_of: RulesOf,
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """Complete the reassignments that can be, in steps; see `Plan.steps`."""
    for count, partition in enumerate(due, 1):
        state = cluster.partition(partition)
        if state is not None and state.is_reassigning:
            new = complete(state, usable_of(partition), rules_of(partition.topic))
            if new is not None:
                changed[partition] = new
        if count % PARTITIONS_PER_STEP == 0:
            yield


class Reassigning:
    """The partitions that are being moved, and those of them that may be complete.

    Invariant: every partition whose state `is_reassigning` is in `partitions`.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.partitions: dict[TopicPartition, None] = {
            partition: None for partition, state in cluster.partitions() if state.is_reassigning
        }
        """In the order in which they were found or began."""
        self._due = dict(self.partitions)

    @property
    def is_due(self) -> bool:
        """Whether a partition may be complete."""
        return bool(self._due)

    def on_changed(self, changed: Mapping[TopicPartition, PartitionState]) -> None:
        """These states were written."""
        for partition, state in changed.items():
            if state.is_reassigning:
                self.partitions[partition] = None
                if set(state.isr) >= set(state.replicas) - set(state.removing):
                    self._due[partition] = None
            else:
                self.partitions.pop(partition, None)
                self._due.pop(partition, None)

    def on_deleted(self, topics: Collection[str]) -> None:
        """These topics are gone."""
        if topics and self.partitions:
            gone = frozenset(topics)  # of a list, each look would be at all of its names
            for partition in [each for each in self.partitions if each.topic in gone]:
                del self.partitions[partition]
                self._due.pop(partition, None)

    def look_again(self) -> None:
        """Brokers, or what they can lead, have changed: any of the partitions may be complete."""
        self._due = dict(self.partitions)

    def take_due(self) -> list[TopicPartition]:
        """Some of the partitions that may be complete; they are not due any more."""
        taken = list(islice(self._due, FINISHED_AT_ONCE))
        for partition in taken:
            del self._due[partition]
        return taken

    def states(
        self, asked: Iterable[TopicPartition] | None
    ) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Those of the asked partitions (None: of all) that are being moved, with their states."""
        for partition in self.partitions if asked is None else asked:
            state = self._cluster.partition(partition)
            if state is not None and state.is_reassigning:
                yield partition, state


def check_target(
    target: Sequence[BrokerId],
    present: Collection[BrokerId],
    live: Collection[BrokerId],
) -> None:
    """Check the replicas that are asked for; those that are not `present` must be on live brokers.

    Raises Refused(invalid_replica_assignment), in the words of Kafka's KRaft controller.
    """
    if not target:
        problem = "an empty replica list"
    else:
        ordered = sorted(target)
        for at, broker in enumerate(ordered):
            if broker not in live and broker not in present:
                problem = f"broker {broker}, but no such broker is registered"
                break
            if at and broker == ordered[at - 1]:
                problem = f"the broker {broker} more than once"
                break
        else:
            return
    raise Refused(
        ErrorCode.invalid_replica_assignment,
        f"The manual partition assignment includes {problem}.",
    )


def _check_factor(state: PartitionState, target: Collection[BrokerId]) -> None:
    factor = len(state.original_replicas)
    if len(target) != factor:
        raise Refused(
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def _cut(
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    usable: Collection[BrokerId],
    rules: ElectionRules,
) -> PartitionState:
    """The state with these replicas; the committed records stay where a leader can be.

    Raises Refused(invalid_replica_assignment) if no in-sync replica that could lead would stay.
    """
    new = with_replicas(state, replicas, usable, rules.min_insync_replicas)
    is_lost = not new.isr and bool(state.isr)
    if (is_lost or not new.has_leader) and rules.is_unclean:
        leader = best_unclean(new, usable)
        if leader is not None:
            return replace(
                new,
                isr=(leader,),
                leader=leader,
                leader_epoch=LeaderEpoch(state.leader_epoch + 1),
                eligible=(),
                doubtful=(),
            )
    if is_lost or (state.has_leader and not new.has_leader):
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            "Unable to change the replicas because only replicas that would be dropped can lead"
            f" ({', '.join(map(str, state.isr))}); it would require an unclean leader election,"
            " but unclean.leader.election.enable is not set for the topic",
        )
    return new


def _one_write(old: PartitionState, new: PartitionState) -> PartitionState:
    """The new state with the epochs that one change of the old one has."""
    has_moved = new.leader != old.leader or new.leader_epoch != old.leader_epoch
    return replace(
        new,
        leader_epoch=LeaderEpoch(old.leader_epoch + has_moved),
        partition_epoch=PartitionEpoch(old.partition_epoch + 1),
    )
