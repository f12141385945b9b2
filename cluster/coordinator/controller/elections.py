"""Who leads a partition when brokers come, go, or are about to go. Pure."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final

from cluster.model.cluster import ClusterState, PartitionState
from cluster.model.ids import (
    NO_BROKER,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)

PARTITIONS_PER_STEP: Final = 100
"""Some 300 us."""


def elect(
    state: PartitionState, live: Collection[BrokerId], *, unclean: bool
) -> PartitionState | None:
    """The state after dead replicas have left the ISR and the leadership; None if nothing changes.

    The leader is the first replica in assignment order that is alive and in sync. When no in-sync
    replica is alive, the ISR is kept as it is (it says who may lead again) unless `unclean`
    (unclean.leader.election.enable) allows any live replica.
    """
    live_isr = tuple(broker for broker in state.isr if broker in live)
    leader = state.leader if state.leader in live_isr else _first_of(state.replicas, live_isr)
    isr = live_isr
    if leader == NO_BROKER:
        isr = state.isr
        if unclean:
            leader = _first_of(state.replicas, live)
            isr = (leader,) if leader != NO_BROKER else isr
    return _changed(state, leader, isr)


def move_away(
    state: PartitionState, leaving: BrokerId, live: Collection[BrokerId]
) -> PartitionState | None:
    """The state after controlled shutdown of one broker; None if nobody can take its place.

    `live` leaves out every broker that is about to stop, so one that still leads goes too.
    """
    others = tuple(broker for broker in state.isr if broker != leaving and broker in live)
    if not others or leaving not in state.isr:
        return None
    leader = state.leader if state.leader in others else _first_of(state.replicas, others)
    return _changed(state, leader, others)


def elect_after_absence(
    state: PartitionState,
    stayed: Collection[BrokerId],
    live: Collection[BrokerId],
    *,
    unclean: bool,
) -> PartitionState | None:
    """`elect` where only `stayed` of the `live` brokers were there all the time.

    One that was away may have lost what it had not synced: it leaves the leadership and the ISR if
    another member of the ISR stayed. If nobody stayed, it leads again, in a new leader epoch.
    """
    without = elect(state, stayed, unclean=False)
    with_all = elect(without or state, live, unclean=unclean)
    if without is None or with_all is None:
        return with_all or without
    return replace(with_all, partition_epoch=without.partition_epoch)  # one write, not two


def elect_all(
    cluster: ClusterState,
    stayed: Callable[[TopicPartition], set[BrokerId]],
    live: Collection[BrokerId],
    unclean_topics: Collection[str],
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """`elect_after_absence` for every partition, in steps; those that change go into `changed`.

    A broker on which the replica is offline counts as dead for it.
    """

    def decide(partition: TopicPartition, state: PartitionState) -> PartitionState | None:
        those_who_stayed = cluster.usable(partition, stayed(partition))
        if state.leader in those_who_stayed and all(b in those_who_stayed for b in state.isr):
            return None  # nothing has changed for it, as for most
        return elect_after_absence(
            state,
            those_who_stayed,
            cluster.usable(partition, live),
            unclean=partition.topic in unclean_topics,
        )

    return _decide_all(cluster, decide, changed)


def elect_where_offline(
    cluster: ClusterState,
    broker: BrokerId,
    live: Collection[BrokerId],
    unclean_topics: Collection[str],
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """`elect` for every partition of a broker, some of whose replicas are offline, in steps."""

    def decide(partition: TopicPartition, state: PartitionState) -> PartitionState | None:
        if broker not in state.isr and broker != state.leader:
            return None
        usable = cluster.usable(partition, live)
        if broker in usable:
            return None
        return elect(state, usable, unclean=partition.topic in unclean_topics)

    return _decide_all(cluster, decide, changed)


def lead_where_room_is(
    cluster: ClusterState,
    live: Collection[BrokerId],
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """Where the leader's log directory is full, have another in-sync replica lead that has room.

    To be run after other elections of the same plan, whose states in `changed` it goes on from. The
    ISR stays as it is: a full replica leaves it when it lacks something.
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
    changed: dict[TopicPartition, PartitionState],
) -> Iterator[None]:
    """`move_away` for every partition, in steps; those that change go into `changed`."""

    def decide(partition: TopicPartition, state: PartitionState) -> PartitionState | None:
        return move_away(state, leaving, cluster.usable(partition, live))

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
    state: PartitionState, leader: BrokerId, isr: tuple[BrokerId, ...]
) -> PartitionState | None:
    if leader == state.leader and isr == state.isr:
        return None
    moved = leader != state.leader
    return PartitionState(
        state.replicas,
        isr,
        leader,
        LeaderEpoch(state.leader_epoch + 1) if moved else state.leader_epoch,
        PartitionEpoch(state.partition_epoch + 1),
    )
