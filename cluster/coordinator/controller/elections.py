"""Elects leaders when brokers register, fail or stop. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from cluster.coordinator.controller.returned_replicas import (
    are_all_heard,
    best_doubtful,
    best_unclean,
    eligible_after,
    without_lost_logs,
)
from cluster.model.cluster import ClusterState, PartitionState
from cluster.model.ids import (
    NO_BROKER,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from cluster.model.log_condition import LogCondition

PARTITIONS_PER_STEP: Final = 100
"""Takes some 300 us."""


class ElectionRules(NamedTuple):
    """A topic's configs about elections."""

    is_unclean: bool
    """unclean.leader.election.enable"""
    min_insync_replicas: int


RulesOf = Callable[[str], ElectionRules]
"""Returns the rules of a topic by name."""


def elect(
    state: PartitionState, live: Collection[BrokerId], *, unclean: bool, min_insync: int = 1
) -> PartitionState | None:
    """The state after dead replicas have left the ISR and the leadership; None if nothing changes.

    The leader is the first live in-sync replica in assignment order, else the first eligible one.
    If none of these is alive, ISR and eligible replicas stay, because they record who may lead
    again. If there are none at all, the best doubtful replica leads as soon as no other can have
    more. `unclean` (unclean.leader.election.enable) allows any live replica.
    """
    live_isr = tuple(broker for broker in state.isr if broker in live)
    leader = state.leader if state.leader in live_isr else _first_of(state.replicas, live_isr)
    if leader != NO_BROKER:
        return _changed(state, leader, live_isr, min_insync)
    leader = _first_of(state.replicas, [each for each in state.eligible if each in live])
    if leader == NO_BROKER and (unclean or are_all_heard(state, live)):
        best = best_unclean(state, live) if unclean else best_doubtful(state, live)
        leader = NO_BROKER if best is None else best
        isr = state.isr if leader == NO_BROKER else (leader,)
        return _changed(state, leader, isr, min_insync, clean=False)
    return _changed(state, leader, state.isr if leader == NO_BROKER else (leader,), min_insync)


def move_away(
    state: PartitionState, leaving: BrokerId, live: Collection[BrokerId], min_insync: int = 1
) -> PartitionState | None:
    """The state after the controlled shutdown of one broker; None if no other can take its place.

    `live` excludes all brokers that are about to stop, so a leader that is about to stop goes too.
    """
    others = tuple(broker for broker in state.isr if broker != leaving and broker in live)
    if not others or leaving not in state.isr:
        return None
    leader = state.leader if state.leader in others else _first_of(state.replicas, others)
    return _changed(state, leader, others, min_insync)


def with_isr(
    state: PartitionState, isr: tuple[BrokerId, ...], min_insync: int = 1
) -> PartitionState:
    """The state with the ISR that the leader proposes; it counts as a change in any case."""
    return replace(
        state,
        isr=isr,
        eligible=eligible_after(state, isr, min_insync),
        doubtful=(),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
    )


def with_replicas(
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    usable: Collection[BrokerId],
    min_insync: int = 1,
) -> PartitionState:
    """The state with these replicas only; it may have no leader, and no ISR, then.

    The leader stays if it is one of them, else it is the first in-sync one that is `usable`.

    The leader epoch rises if a replica is dropped, even if the leader stays, as in KRaft: until
    that replica knows that it was dropped it goes on fetching, and deletes its log afterwards. If
    it were added again meanwhile, such fetches would bring it into the ISR.
    """
    isr = tuple(broker for broker in state.isr if broker in replicas)
    leader = state.leader
    if leader not in isr:
        leader = _first_of(replicas, [b for b in isr if b in usable]) if leader >= 0 else NO_BROKER
    new = replace(state, replicas=replicas)
    return replace(
        new,
        isr=isr,
        leader=leader,
        leader_epoch=LeaderEpoch(
            state.leader_epoch
            + (leader != state.leader or not set(state.replicas) <= set(replicas))
        ),
        eligible=eligible_after(new, isr, min_insync) if leader != NO_BROKER else new.eligible,
        doubtful=tuple(log for log in state.doubtful if log.broker in replicas),
    )


def elect_after_absence(
    state: PartitionState,
    stayed: Collection[BrokerId],
    live: Collection[BrokerId],
    *,
    unclean: bool,
    min_insync: int = 1,
) -> PartitionState | None:
    """`elect` if only `stayed` of the `live` brokers were present all the time.

    A broker that was away may have lost unsynced records: it leaves the leadership and the ISR if
    another ISR member stayed. If none stayed, it leads again in a new leader epoch.
    """
    without = elect(state, stayed, unclean=False, min_insync=min_insync)
    with_all = elect(without or state, live, unclean=unclean, min_insync=min_insync)
    if without is None or with_all is None:
        return with_all or without
    return replace(with_all, partition_epoch=without.partition_epoch)  # one write, not two


def elect_all(
    cluster: ClusterState,
    stayed: Callable[[TopicPartition], set[BrokerId]],
    live: Collection[BrokerId],
    rules_of: RulesOf,
    changed: dict[TopicPartition, PartitionState],
    returned: Mapping[BrokerId, LogCondition],
) -> Iterator[None]:
    """`elect_after_absence` for every partition, in steps; changed states go into `changed`.

    A broker counts as dead for its offline replicas. `returned` are the brokers that may have been
    away (see `without_lost_logs`).
    """

    def decide(partition: TopicPartition, state: PartitionState) -> PartitionState | None:
        those_who_stayed = cluster.usable(partition, stayed(partition))
        judged = state
        if returned:
            away = {b: lost for b, lost in returned.items() if b not in those_who_stayed}
            topic_id = cluster.topics[partition.topic].topic_id
            judged = without_lost_logs(state, partition, topic_id, away)
        if (
            judged is state
            and state.leader in those_who_stayed
            and all(b in those_who_stayed for b in state.isr)
        ):
            return None  # most partitions have not changed
        rules = rules_of(partition.topic)
        new_state = elect_after_absence(
            judged,
            those_who_stayed,
            cluster.usable(partition, live),
            unclean=rules.is_unclean,
            min_insync=rules.min_insync_replicas,
        )
        if new_state is None and judged is not state:
            return replace(judged, partition_epoch=PartitionEpoch(state.partition_epoch + 1))
        return new_state

    return _decide_all(cluster, decide, changed)


def elect_where_offline(
    cluster: ClusterState,
    broker: BrokerId,
    live: Collection[BrokerId],
    rules_of: RulesOf,
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """`elect` for every partition of a broker with offline replicas, in steps."""

    def decide(partition: TopicPartition, state: PartitionState) -> PartitionState | None:
        if broker not in state.isr and broker != state.leader:
            return None
        usable = cluster.usable(partition, live)
        if broker in usable:
            return None
        rules = rules_of(partition.topic)
        return elect(state, usable, unclean=rules.is_unclean, min_insync=rules.min_insync_replicas)

    return _decide_all(cluster, decide, changed)


def lead_where_room_is(
    cluster: ClusterState,
    live: Collection[BrokerId],
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """Elect another in-sync replica with room if the leader's log directory is full.

    Runs after other elections of the same plan, and continues from their states in `changed`. The
    ISR stays: a full replica leaves it when it falls behind.
    """
    if not cluster.full:
        return
    for count, (partition, old) in enumerate(cluster.partitions(), 1):
        state = changed.get(partition, old)
        usable = cluster.with_room(partition, cluster.usable(partition, live))
        if state.has_leader and state.leader not in usable:
            leader = _first_of(state.replicas, [b for b in state.isr if b in usable])
            if leader != NO_BROKER:
                changed[partition] = replace(
                    state,
                    leader=leader,
                    leader_epoch=LeaderEpoch(old.leader_epoch + 1),
                    partition_epoch=PartitionEpoch(old.partition_epoch + 1),
                )
        if count % PARTITIONS_PER_STEP == 0:
            yield


def move_all_away(
    cluster: ClusterState,
    leaving: BrokerId,
    live: Collection[BrokerId],
    rules_of: RulesOf,
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """`move_away` for every partition, in steps; changed states go into `changed`."""

    def decide(partition: TopicPartition, state: PartitionState) -> PartitionState | None:
        usable = cluster.usable(partition, live)
        return move_away(state, leaving, usable, rules_of(partition.topic).min_insync_replicas)

    return _decide_all(cluster, decide, changed)


def _decide_all(
    cluster: ClusterState,
    decide: Callable[[TopicPartition, PartitionState], PartitionState | None],
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    for count, (partition, state) in enumerate(cluster.partitions(), 1):
        new_state = decide(partition, state)
        if new_state is not None:
            changed[partition] = new_state
        if count % PARTITIONS_PER_STEP == 0:
            yield


def _first_of(replicas: Collection[BrokerId], candidates: Collection[BrokerId]) -> BrokerId:
    return next((broker for broker in replicas if broker in candidates), NO_BROKER)


def _changed(
    state: PartitionState,
    leader: BrokerId,
    isr: tuple[BrokerId, ...],
    min_insync: int,
    *,
    clean: bool = True,
) -> PartitionState | None:
    """`clean` says that the leader has every record that another replica may have committed."""
    has_leader = leader != NO_BROKER
    if not has_leader:
        eligible = state.eligible
    else:
        eligible = eligible_after(state, isr, min_insync) if clean else ()
    moved = leader != state.leader
    doubtful = () if has_leader else state.doubtful
    if not moved and (isr, eligible, doubtful) == (state.isr, state.eligible, state.doubtful):
        return None
    return replace(
        state,
        isr=isr,
        leader=leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1) if moved else state.leader_epoch,
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        eligible=eligible,
        doubtful=doubtful,
    )
