"""Assembles the group coordinator of a broker, and what it uses of the cluster."""

from dataclasses import dataclass
from uuid import UUID

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.coordinators.options import CoordinatorPorts
from cluster.brokers.groups.cluster_topics import ClusterTopics
from cluster.brokers.groups.group_coordinator import GroupCoordinator
from cluster.brokers.groups.history_handover import HistoryHandover
from cluster.brokers.groups.log_ends import LeaderLogEnds
from cluster.brokers.stored.group_configs import GroupConfigs
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.protocol.peer.control import AskLogEnds, ClusterUpdate, KeepHistories
from cluster.runtime.loop import EventLoop


@dataclass(frozen=True, slots=True)
class Groups:
    """The parts of a broker that serve consumer groups."""

    loop: EventLoop
    configs: GroupConfigs
    topics: ClusterTopics
    counts: GroupCounts
    """Counts over all partitions of the group coordinator since the broker started."""
    coordinator: GroupCoordinator
    log_ends: LeaderLogEnds

    def note_reshaped_topics(self, update: ClusterUpdate) -> None:
        """Called before an update is applied to the metadata cache; tells the group coordinator of
        changed topics at the end of the event loop's iteration, after the update has been applied.
        """
        names = self.topics.reshaped_by(update)
        if names:
            self.loop.defer(lambda: self.coordinator.on_topics_changed(names))


def assemble_groups(
    foundation: Foundation, membership: Membership, storage: Storage, replication: Replication
) -> Groups:
    """Also serves the requests about groups that brokers send each other."""
    ports, metadata = foundation.ports, membership.metadata
    configs = GroupConfigs(ports.store, ports.loop, ports.clock, foundation.live)
    topics = ClusterTopics(metadata)
    counts = GroupCounts(foundation.event_log)
    group_options = options.group_options(foundation.live.now)

    def new_shard() -> GroupShard:
        return GroupShard(group_options, new_uuid, topics, configs.timings, counts)

    def new_uuid() -> str:
        return str(UUID(int=ports.random.getrandbits(128), version=4))

    histories = HistoryHandover(foundation.id, metadata, ports.control_link, ports.clock)
    coordinator = GroupCoordinator(
        options.group_coordinator_options(foundation.live.now),
        CoordinatorPorts(
            replication.internal_topics, metadata, foundation.slices, ports.clock, ports.loop
        ),
        new_shard,
        histories,
    )
    log_ends = LeaderLogEnds(storage.table, metadata, ports.control_link)
    ports.control_link.serve(AskLogEnds, log_ends.on_request)
    ports.control_link.serve(KeepHistories, histories.on_request)
    return Groups(ports.loop, configs, topics, counts, coordinator, log_ends)
