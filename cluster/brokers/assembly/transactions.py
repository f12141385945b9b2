"""Assembles the transaction coordinator of a broker, and the parts of transactions on leaders."""

from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.groups import Groups
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.coordinators.options import CoordinatorPorts
from cluster.brokers.stored.producer_ids import ProducerIds
from cluster.brokers.transactions.marker_sender import MarkerSender
from cluster.brokers.transactions.marker_writer import MarkerWriter
from cluster.brokers.transactions.recent_writers import RecentWriters
from cluster.brokers.transactions.transaction_checks import TransactionChecks
from cluster.brokers.transactions.transaction_coordinator import TransactionCoordinator
from cluster.protocol.peer.transactions import CheckTransactions, WriteMarkers


@dataclass(frozen=True, slots=True)
class Transactions:
    """The parts of a broker that serve transactions."""

    coordinator: TransactionCoordinator
    checks: TransactionChecks
    writer: MarkerWriter
    sender: MarkerSender
    producer_ids: ProducerIds
    writers: RecentWriters


def assemble_transactions(
    foundation: Foundation, membership: Membership, replication: Replication, groups: Groups
) -> Transactions:
    """Also serves the requests about transactions that brokers send each other."""
    ports, metadata, live = foundation.ports, membership.metadata, foundation.live
    writer = MarkerWriter(replication.internal_topics.appends, groups.coordinator)
    sender = MarkerSender(foundation.id, metadata, ports.control_link, writer, ports.loop)
    producer_ids = _producer_ids(foundation)
    coordinator = TransactionCoordinator(
        options.transaction_coordinator_options(live.now),
        CoordinatorPorts(
            replication.internal_topics, metadata, foundation.slices, ports.clock, ports.loop
        ),
        lambda: options.transaction_options(live.now),
        sender,
        producer_ids,
    )
    checks = TransactionChecks(foundation.id, metadata, ports.control_link, coordinator, ports.loop)
    ports.control_link.serve(WriteMarkers, sender.on_request)
    ports.control_link.serve(CheckTransactions, checks.on_request)
    return Transactions(coordinator, checks, writer, sender, producer_ids, RecentWriters())


def _producer_ids(foundation: Foundation) -> ProducerIds:
    store = foundation.ports.store
    return ProducerIds(
        lambda on_done, on_failed: store.submit(
            lambda blocking: blocking.ids.next_producer_ids(foundation.id), on_done, on_failed
        )
    )
