"""The `ClusterStore` over ZooKeeper's protocol, with kazoo's client."""

from collections.abc import Callable

from kazoo.client import KazooClient

from cluster.coordinator.cluster_store import ClusterStore, OnChange
from cluster.coordinator.registry.client.acl_records import AclRecords
from cluster.coordinator.registry.client.admin_records import AdminRecords
from cluster.coordinator.registry.client.broker_records import BrokerRecords
from cluster.coordinator.registry.client.config_records import ConfigRecords
from cluster.coordinator.registry.client.credential_records import CredentialRecords
from cluster.coordinator.registry.client.election_records import ElectionRecords
from cluster.coordinator.registry.client.id_records import IdRecords
from cluster.coordinator.registry.client.quota_records import QuotaRecords
from cluster.coordinator.registry.client.token_records import TokenRecords
from cluster.coordinator.registry.client.topic_records import TopicRecords
from cluster.coordinator.registry.client.watching import WatchFunction


def kazoo_store(
    client: KazooClient, make_watch: Callable[[OnChange], WatchFunction]
) -> ClusterStore:
    """The store of one session. `make_watch` turns a callback into a watch function for one call
    of the client.
    """

    def watch(on_change: OnChange | None) -> WatchFunction | None:
        return None if on_change is None else make_watch(on_change)

    return ClusterStore(
        brokers=BrokerRecords(client, watch),
        election=ElectionRecords(client, watch),
        topics=TopicRecords(client, watch),
        configs=ConfigRecords(client, watch),
        quotas=QuotaRecords(client, watch),
        acls=AclRecords(client, watch),
        credentials=CredentialRecords(client, watch),
        tokens=TokenRecords(client, watch),
        ids=IdRecords(client),
        admin=AdminRecords(client, watch),
    )
