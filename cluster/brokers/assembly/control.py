"""Assembles the controller, and the broker's parts that a controller directs."""

from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.groups import Groups
from cluster.brokers.assembly.limits import Limits
from cluster.brokers.assembly.maintenance import Maintenance
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.membership.controller_updates import ControllerUpdates
from cluster.brokers.membership.offline_report import OfflineReport
from cluster.brokers.membership.peer_pings import PeerPings
from cluster.config import broker as keys
from cluster.config.topic import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.protocol.peer.control import ClusterUpdate, Ping
from cluster.quotas.mutation_quota import admit_of


@dataclass(frozen=True, slots=True)
class Control:
    """The cluster's controller, which is active on one broker, and the control link to
    other brokers.
    """

    updates: ControllerUpdates
    pings: PeerPings
    driver: ControllerDriver
    requests: ControllerRequests


def assemble_control(
    foundation: Foundation,
    membership: Membership,
    storage: Storage,
    replication: Replication,
    maintenance: Maintenance,
    groups: Groups,
    limits: Limits,
) -> Control:
    """Also serves the controller's messages to brokers, and the brokers' requests to the
    controller.
    """
    ports, live = foundation.ports, foundation.live
    loop, link, metadata = ports.loop, ports.control_link, membership.metadata
    pings = PeerPings(
        foundation.id,
        live[keys.ZOOKEEPER_SESSION_TIMEOUT_MS],
        loop,
        metadata,
        replication.purgatory,
        link,
    )
    offline_report = OfflineReport(
        foundation.id,
        storage.table.offline,
        membership.controller_client,
        loop.defer,
        loop.call_after,
    )
    updates = ControllerUpdates(
        loop,
        metadata,
        replication.changes,
        membership.registration,
        (
            pings.on_update,
            groups.note_reshaped_topics,
            offline_report.on_update,
            maintenance.full_directories.on_update,
            membership.registration.on_update,
            storage.directory_record.on_update,
            replication.throttles.on_update,
        ),
        groups.coordinator.on_topics_gone,
    )
    driver = _controller_driver(foundation, membership)
    live.subscribe(driver.on_settings_changed)
    requests = ControllerRequests(
        driver,
        lambda name: options.automatic_topic(live.now, name),
        lambda client: admit_of(limits.quotas, client, lambda: loop.now_ms),
    )
    link.serve(ClusterUpdate, updates.on_update)
    link.serve(Ping, pings.on_ping)
    requests.serve(link)
    return Control(updates, pings, driver, requests)


def _controller_driver(foundation: Foundation, membership: Membership) -> ControllerDriver:
    ports, live = foundation.ports, foundation.live
    rules = TopicRules(
        live[keys.NUM_PARTITIONS],
        live[keys.DEFAULT_REPLICATION_FACTOR],
        live.of_topic,
        lambda overrides: foundation.topic_settings(overrides)[MIN_INSYNC_REPLICAS],
    )
    return ControllerDriver(
        foundation.id,
        ports.store,
        ports.control_link,
        ports.loop,
        ports.clock,
        rules,
        lambda overrides: foundation.topic_settings(overrides)[UNCLEAN_LEADER_ELECTION_ENABLE],
        ports.random,
        options.leader_returns(live.now),
        lambda: membership.metadata.brokers,
        foundation.event_log,
        lambda: live[keys.DELETE_TOPIC_ENABLE],
    )
