"""Assembles the services that the handlers of client requests use."""

from collections.abc import Callable, Mapping

from cluster.brokers.assembly import options
from cluster.brokers.assembly.control import Control
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.groups import Groups
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.security import Security
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.assembly.transactions import Transactions
from cluster.brokers.client_metrics.client_metrics import ClientMetrics
from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.fetching.read_replicas import RACK_AWARE
from cluster.brokers.handlers.services import (
    AdminServices,
    CommonServices,
    DataServices,
    GroupServices,
    SecurityServices,
    ServicesOfFamilies,
    TransactionServices,
)
from cluster.brokers.stored.departed_brokers import DepartedBrokers
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.config import broker as keys
from cluster.protocol.api import CLIENT_METRICS_APIS
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.runtime.long_work import LongWork


def assemble_services(
    foundation: Foundation,
    membership: Membership,
    storage: Storage,
    replication: Replication,
    groups: Groups,
    transactions: Transactions,
    control: Control,
    security: Security,
    quota_changes: QuotaChanges,
    client_metrics: ClientMetrics,
    connected: ConnectedClients,
    long_work: LongWork,
) -> ServicesOfFamilies:
    """One record for each family of APIs."""
    shared = CommonServices(
        broker_id=foundation.id,
        settings=foundation.live,
        clock=foundation.ports.clock,
        loop=foundation.ports.loop,
        slices=foundation.slices,
        metadata=membership.metadata,
        liveness=control.pings.liveness,
        controller_client=membership.controller_client,
        authorizer=security.authorizer,
    )
    features = options.features(foundation.live.now)
    data = DataServices(
        **shared,
        partitions=storage.table,
        events=replication.events,
        purgatory=replication.purgatory,
        fetch_sessions=replication.fetch_sessions,
        commit_waits=replication.commit_waits,
        checks=transactions.checks,
        transaction_writers=transactions.writers,
        counters=foundation.ports.counters,
        long_work=long_work,
        fetch_max_bytes=foundation.live[keys.FETCH_MAX_BYTES],
        has_read_replicas=foundation.live[keys.REPLICA_SELECTOR_CLASS] == RACK_AWARE,
        api_versions=_api_versions(features, client_metrics),
    )
    admin = AdminServices(
        **shared,
        controller=control.requests,
        partitions=storage.table,
        moves=storage.moves,
        group_configs=groups.configs,
        client_metrics=client_metrics,
        connected=connected,
        setting_changes=foundation.setting_changes,
        quota_changes=quota_changes,
        departed_brokers=DepartedBrokers(foundation.ports.store),
        features=features,
        topic_settings=foundation.topic_settings,
    )
    authentication = security.authentication
    return ServicesOfFamilies(
        data,
        GroupServices(**shared, groups=groups.coordinator, transactions=transactions.coordinator),
        TransactionServices(
            **shared,
            groups=groups.coordinator,
            transactions=transactions.coordinator,
            checks=transactions.checks,
            transaction_writers=transactions.writers,
            markers=transactions.writer,
            partitions=storage.table,
            producer_ids=transactions.producer_ids,
        ),
        admin,
        SecurityServices(
            **shared,
            controller=control.requests,
            credentials=authentication.credentials,
            tokens=authentication.tokens,
            logins=authentication.logins,
            acls=security.acls,
        ),
    )


def _api_versions(
    features: Mapping[str, int], client_metrics: ClientMetrics
) -> Callable[[], ApiVersionsAnswers]:
    apis = [handler.api for handler in HANDLERS]
    all_apis = ApiVersionsAnswers(apis, features)
    usual = ApiVersionsAnswers(
        (api for api in apis if api.key not in CLIENT_METRICS_APIS), features
    )
    return lambda: usual if client_metrics.configs.is_empty else all_apis
