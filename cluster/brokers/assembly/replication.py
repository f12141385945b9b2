"""Assembles replication: replica roles, follower fetches, and the requests that wait for
replicas.
"""

from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.fetching.read_replicas import RACK_AWARE
from cluster.brokers.fetching.sessions import FetchSessions
from cluster.brokers.metrics.counters import isr_counter
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.replication.commit_waits import CommitWaits
from cluster.brokers.replication.internal_topics import InternalTopics
from cluster.brokers.replication.isr_proposals import IsrProposals
from cluster.brokers.replication.leader_fetches import LeaderActions
from cluster.brokers.replication.own_appends import OwnAppends
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.brokers.replication.replication_link import ReplicationLink
from cluster.brokers.replication.replication_throttles import ReplicationThrottles
from cluster.brokers.replication.role_changes import RoleChanges
from cluster.config import broker as keys

_ROLES_TICK_MIN_MS, _ROLES_TICK_MAX_MS = 50, 1_000


@dataclass(frozen=True, slots=True)
class Replication:
    """Lifecycle: `start` begins to check for lagging followers; `link` must be closed."""

    foundation: Foundation
    events: PartitionEvents
    purgatory: Purgatory
    fetch_sessions: FetchSessions
    commit_waits: CommitWaits
    isr_proposals: IsrProposals
    link: ReplicationLink
    throttles: ReplicationThrottles
    internal_topics: InternalTopics
    roles: ReplicaRoles
    changes: RoleChanges

    def start(self) -> None:
        """Start the timer of the check for lagging followers."""
        lag_ms = self.foundation.live[keys.REPLICA_LAG_TIME_MAX_MS]
        period_ms = max(_ROLES_TICK_MIN_MS, min(lag_ms // 2, _ROLES_TICK_MAX_MS))
        self.foundation.ports.loop.call_every(period_ms, self.changes.look_round)


def assemble_replication(
    foundation: Foundation, membership: Membership, storage: Storage
) -> Replication:
    """Also binds the port that followers fetch from."""
    ports, live, table = foundation.ports, foundation.live, storage.table
    loop = ports.loop
    events = PartitionEvents(loop.defer)
    purgatory = Purgatory(loop.call_at, loop.time)
    commit_waits = CommitWaits(loop.call_at, loop.time)
    isr_proposals = IsrProposals(
        table,
        events,
        membership.controller_client.propose_isr,
        lambda: loop.now_ms,
        isr_counter(ports.counters),
    )
    actions = LeaderActions(
        find_partition=table.find,
        on_high_watermark_moved=events.on_high_watermark_moved,
        on_follower_log_start_moved=events.on_moved,
        propose_isr=isr_proposals.propose,
        note_failure=table.note_failure,
    )
    throttles = ReplicationThrottles(
        foundation.id,
        options.replication_windows(live.now),
        lambda: loop.now_ms,
        loop.call_at,
        lambda overrides: options.throttled_replicas(live.now, overrides),
    )
    link = _replication_link(foundation, membership, events, actions, throttles)
    throttles.set_limits(options.replication_limits(live.now))
    live.subscribe(lambda settings: throttles.set_limits(options.replication_limits(settings)))
    leader_side = link.leader_side
    events.subscribe(
        on_news=leader_side.on_news,
        on_watermark=leader_side.on_high_watermark_moved,
        on_log_start=leader_side.on_log_start_moved,
        on_role=leader_side.on_role_changed,
    )
    events.subscribe(on_role=commit_waits.check, on_moved=commit_waits.check)
    events.subscribe(on_role=purgatory.check, on_moved=purgatory.check)
    fetch_sessions = FetchSessions(
        live[keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS],
        ports.random,
        purgatory,
        loop.defer,
        lambda: loop.now_ms,
        membership.metadata.topic_name,
    )
    appends = OwnAppends(table, events, ports.clock, loop)
    internal_topics = InternalTopics(table, events, appends)
    roles = ReplicaRoles(
        foundation.id,
        table,
        live[keys.REPLICA_LAG_TIME_MAX_MS],
        events,
        isr_proposals,
        link,
        ports.clock.wall_ms,
    )
    changes = RoleChanges(roles, table, membership.metadata, foundation.slices, lambda: loop.now_ms)
    return Replication(
        foundation,
        events,
        purgatory,
        fetch_sessions,
        commit_waits,
        isr_proposals,
        link,
        throttles,
        internal_topics,
        roles,
        changes,
    )


def _replication_link(
    foundation: Foundation,
    membership: Membership,
    events: PartitionEvents,
    actions: LeaderActions,
    throttles: ReplicationThrottles,
) -> ReplicationLink:
    ports, live = foundation.ports, foundation.live
    return ReplicationLink(
        ports.sockets,
        ports.local_sockets,
        ports.loop,
        ports.clock,
        live[keys.CONTROL_HOST],
        options.fetch_options(live.now, ports.machine, lambda: membership.registration.epoch),
        live[keys.REPLICA_FETCH_MAX_BYTES],
        actions,
        ports.random,
        events.on_high_watermark_moved,
        throttles,
        live[keys.REPLICATION_PORT],
        has_readers=live[keys.REPLICA_SELECTOR_CLASS] == RACK_AWARE,
    )
