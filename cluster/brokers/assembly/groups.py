"""Assembles the group coordinator of a broker, and what it needs of the cluster."""

from dataclasses import dataclass
from uuid import UUID

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.groups.cluster_topics import ClusterTopics
from cluster.brokers.groups.group_coordinator import GroupCoordinator
from cluster.brokers.groups.history_handover import HistoryHandover
from cluster.brokers.groups.log_ends import LeaderLogEnds
from cluster.brokers.stored.group_configs import GroupConfigs
from cluster.protocol.peer.control import AskLogEnds, ClusterUpdate, KeepHistories
from cluster.runtime.loop import EventLoop


@dataclass(frozen=True, slots=True)
class Groups:
    """Consumer groups, as far as this broker has to do with them."""

    loop: EventLoop
    configs: GroupConfigs
    topics: ClusterTopics
    coordinator: GroupCoordinator
    log_ends: LeaderLogEnds

    def note_reshaped_topics(self, update: ClusterUpdate) -> None:
        """Called before an update is applied to the metadata cache; tells the group coordinator of
        changed topics at the end of the turn, when it has been applied.
        """
        names = self.topics.reshaped_by(update)
        if names:
            self.loop.defer(lambda: self.coordinator.on_topics_changed(names))


def assemble_groups(
    foundation: Foundation, membership: Membership, storage: Storage, replication: Replication
) -> Groups:
    """Also serves the requests that brokers send each other about groups."""
    ports, metadata = foundation.ports, membership.metadata
    configs = GroupConfigs(ports.store, ports.loop, ports.clock, foundation.live)
    topics = ClusterTopics(metadata)
    coordinator = GroupCoordinator(
        options.coordinator_options(foundation.live.now),
        replication.internal_topics,
        metadata,
        foundation.slices,
        ports.clock,
        ports.loop,
        lambda: str(UUID(int=ports.random.getrandbits(128), version=4)),
        topics,
        configs.timings,
        foundation.event_log,
    )
    histories = HistoryHandover(
        foundation.id, coordinator.former, metadata, ports.control_link, ports.clock
    )
    coordinator.on_unloaded = histories.on_unloaded
    log_ends = LeaderLogEnds(storage.table, metadata, ports.control_link)
    ports.control_link.serve(AskLogEnds, log_ends.on_request)
    ports.control_link.serve(KeepHistories, histories.on_request)
    return Groups(ports.loop, configs, topics, coordinator, log_ends)
