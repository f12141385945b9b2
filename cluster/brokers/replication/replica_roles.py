"""Gives replicas the roles that the controller decides, and checks followers of led ones."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from cluster.brokers.replication.isr_proposals import IsrProposals
from cluster.brokers.replication.leader_fetches import LeaderFetches
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import NO_TOPIC_ID, PartitionTable
from cluster.log.log_directory import LogDirectory
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.cluster import BrokerRegistration, PartitionState, TopicState
from cluster.model.errors import StorageFailed
from cluster.model.ids import NO_BROKER, BrokerId, TopicPartition

log = logging.getLogger(__name__)

_FIRST_PARTITION_EPOCH: Final = 0
"""A state with this epoch has not changed since the partition was created."""
_NOWHERE: Final = ""
"""Stands for the endpoint of a leader that is not registered yet."""


class Followers(Protocol):
    """The replication link, as roles use it."""

    @property
    def leader_side(self) -> LeaderFetches:
        """Serves the followers of this broker."""
        ...

    def follow(self, partition: Partition, leader: BrokerId, endpoint: str) -> None:
        """Replicate from that leader."""
        ...

    def unfollow(self, partition_id: TopicPartition) -> None:
        """Stop replicating a partition."""
        ...


class ReplicaRoles:
    """Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        table: PartitionTable,
        lag_time_max_ms: int,
        events: PartitionEvents,
        isr_proposals: IsrProposals,
        link: Followers,
        wall_ms: Callable[[], WallMs],
    ) -> None:
        """`wall_ms` gives the time for new replicas."""
        self._local_id = local_id
        self._table = table
        self._lag_time_max_ms = lag_time_max_ms
        self._events = events
        self._isr_proposals = isr_proposals
        self._link = link
        self._wall_ms = wall_ms
        self._followed: dict[TopicPartition, str] = {}
        """The leader's replication endpoint, by partition that is followed or will be."""

    # -- what the controller decides -------------------------------------------------------------

    def apply_state(
        self,
        partition_id: TopicPartition,
        topic: TopicState | None,
        brokers: Mapping[BrokerId, BrokerRegistration],
        now_ms: MonotonicMs,
    ) -> str | None:
        """Let the replica adopt the present state of its topic (None: deleted).

        Returns a log line on the change; None without one.
        """
        state = None if topic is None else topic.partitions.get(partition_id.partition)
        partition = self._table.find(partition_id)
        if topic is None or state is None or self._local_id not in state.replicas:
            self._table.offline.forget(partition_id)
            return None if partition is None else self._remove(partition_id)
        if self._stays_offline(partition_id, topic, state):
            return None
        if partition is not None and self._table.is_of_earlier_topic(partition, topic.topic_id):
            self._remove(partition_id)
            partition = None
        if partition is None and not state.has_leader:
            return None  # its log may come back, for example when its disk is mounted again
        return self._take_role(partition_id, topic, state, brokers, now_ms)

    def followed(self) -> list[TopicPartition]:
        """The partitions that follow a leader, or will once it is registered."""
        return list(self._followed)

    def follow_where_it_is(
        self, partition_id: TopicPartition, brokers: Mapping[BrokerId, BrokerRegistration]
    ) -> None:
        """Follow a restarted leader at its new endpoint, even if its epoch is the same."""
        partition = self._table.find(partition_id)
        if partition is not None and partition_id in self._followed:
            self._follow(partition, brokers.get(partition.leader_id), changed=False)

    def resign_all(self) -> None:
        """Stop leading and following: the session is lost, and others may lead now."""
        for partition in self._table:
            self._unfollow(partition.id)
            partition.resign()
            self._events.on_role_changed(partition.id)

    def check_followers(
        self, partition: Partition, now_ms: MonotonicMs, full: Collection[BrokerId] = ()
    ) -> None:
        """Find the followers of a led partition that lag too long, or may be in sync again.

        `full` are the brokers whose log directories have no room for it.
        """
        leader = partition.leader
        if leader is None:
            return
        if leader.recheck():
            self._events.on_high_watermark_moved(partition)
        if len(leader.isr) <= len(leader.followers):
            self._link.leader_side.ask_for_positions(partition.id, leader.outsiders)
        proposal = leader.on_tick(now_ms, self._lag_time_max_ms, full)
        if proposal is not None:
            log.info("%s: proposing the ISR %s", partition.id, list(proposal.isr))
            self._isr_proposals.propose(partition, proposal)

    def take_offline(self, directory: LogDirectory) -> int:
        """Give up the replicas of a failed log directory; returns their number."""
        gone = self._table.take_offline(directory)
        for partition in gone:
            self._unfollow(partition.id)
            self._events.on_role_changed(partition.id)
        return len(gone)

    def take_replica_offline(self, partition_id: TopicPartition) -> None:
        """Give up a replica whose directory is gone."""
        if self._table.take_replica_offline(partition_id) is not None:
            log.error(
                "%s is offline: its directory was removed; another replica leads, and the next"
                " start of this broker copies it again",
                partition_id,
            )
            self._unfollow(partition_id)
            self._events.on_role_changed(partition_id)

    # -- inside ------------------------------------------------------------------------------------

    def _stays_offline(
        self, partition_id: TopicPartition, topic: TopicState, state: PartitionState
    ) -> bool:
        """Whether the replica is in a log directory that has failed, or may be.

        As in Kafka, a missing replica is not created again while a directory cannot be read,
        unless it is new: the directory may hold its acknowledged records.
        """
        offline = self._table.offline
        known = offline.find(partition_id)
        if known is not None:
            if known.topic_id == topic.topic_id:
                return True
            if known.topic_id == NO_TOPIC_ID:
                offline.add(partition_id, topic.topic_id, known.reason)
                return True
            offline.forget(partition_id)
        if (
            state.partition_epoch <= _FIRST_PARTITION_EPOCH
            or not self._table.places.has_failed_one
            or self._table.find(partition_id) is not None
            or (self._local_id in state.adding and self._local_id not in state.isr)
        ):
            return False
        offline.add(partition_id, topic.topic_id, "it may be in a log directory that has failed")
        return True

    def _take_role(
        self,
        partition_id: TopicPartition,
        topic: TopicState,
        state: PartitionState,
        brokers: Mapping[BrokerId, BrokerRegistration],
        now_ms: MonotonicMs,
    ) -> str | None:
        try:
            partition = self._table.find_or_create(
                partition_id, topic.topic_id, topic.configs, self._wall_ms()
            )
            high_watermark = partition.high_watermark
            changed = partition.become(state, now_ms)
        except StorageFailed as failure:
            log.error("%s: cannot take its role: %s", partition_id, failure)  # noqa: TRY400
            self._table.note_failure(partition_id, failure)
            return None
        if partition.leader is not None or partition.leader_id == NO_BROKER:
            self._unfollow(partition_id)
        else:
            self._follow(partition, brokers.get(partition.leader_id), changed=changed)
        if changed:
            self._events.on_role_changed(partition_id)
        if partition.high_watermark != high_watermark:
            self._events.on_high_watermark_moved(partition)
        self._events.on_moved(partition_id)
        if not changed:
            return None
        role = "leader" if partition.leader is not None else f"follower of {state.leader}"
        return f"{partition_id}: {role} in epoch {state.leader_epoch}"

    def _follow(
        self, partition: Partition, leader: BrokerRegistration | None, *, changed: bool
    ) -> None:
        if leader is None:
            if changed:
                self._unfollow(partition.id)
            self._followed.setdefault(partition.id, _NOWHERE)
            return
        endpoint = leader.replication_endpoint
        if changed or self._followed.get(partition.id) != endpoint:
            self._followed[partition.id] = endpoint
            self._link.follow(partition, leader.id, endpoint)

    def _unfollow(self, partition_id: TopicPartition) -> None:
        if self._followed.pop(partition_id, None) is not None:
            self._link.unfollow(partition_id)

    def _remove(self, partition_id: TopicPartition) -> str:
        self._unfollow(partition_id)
        self._table.delete(partition_id)
        self._events.on_role_changed(partition_id)
        return f"{partition_id}: removed"
