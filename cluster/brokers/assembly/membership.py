"""Assembles what makes a broker a member of its cluster: registration and the metadata cache."""

from dataclasses import dataclass

from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.membership.controller_client import ControllerClient
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.registration import Registration


@dataclass(frozen=True, slots=True)
class Membership:
    """The broker's registration, its copy of the cluster's state and its requests to the
    controller.
    """

    metadata: MetadataCache
    registration: Registration
    controller_client: ControllerClient


def assemble_membership(foundation: Foundation) -> Membership:
    """Does not register the broker yet."""
    ports = foundation.ports
    metadata = MetadataCache(ports.cluster_id, ports.on_view)
    registration = Registration(ports.store, ports.loop, ports.clock)
    controller_client = ControllerClient(
        foundation.id, ports.loop, metadata, ports.control_link, registration
    )
    return Membership(metadata, registration, controller_client)
