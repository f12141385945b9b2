"""The broker's services that handlers use: a record for each family of APIs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from cluster.brokers.client_metrics.client_metrics import ClientMetrics
from cluster.brokers.fetching.sessions import FetchSessions
from cluster.brokers.groups.group_coordinator import GroupCoordinator
from cluster.brokers.membership.controller_client import ControllerClient
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.peer_liveness import PeerLiveness
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.replication.commit_waits import CommitWaits
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.security.authorizer import Authorizer
from cluster.brokers.security.logins import Logins
from cluster.brokers.storage.replica_moves import ReplicaMoves
from cluster.brokers.stored.acl_changes import AclChanges
from cluster.brokers.stored.delegation_tokens import DelegationTokens
from cluster.brokers.stored.departed_brokers import DepartedBrokers
from cluster.brokers.stored.group_configs import GroupConfigs
from cluster.brokers.stored.producer_ids import ProducerIds
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.brokers.stored.setting_changes import SettingChanges
from cluster.brokers.stored.user_credentials import UserCredentials
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.brokers.transactions.marker_writer import MarkerWriter
from cluster.brokers.transactions.recent_writers import RecentWriters
from cluster.brokers.transactions.transaction_checks import TransactionChecks
from cluster.brokers.transactions.transaction_coordinator import TransactionCoordinator
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import Settings
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.model.ids import BrokerId
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.runtime.clock import Clock
from cluster.runtime.long_work import LongWork
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Services for handlers of every family."""

    broker_id: BrokerId
    settings: LiveSettings
    clock: Clock
    loop: EventLoop
    slices: Slices
    metadata: MetadataCache
    liveness: PeerLiveness
    controller_client: ControllerClient
    """Requests to the current controller, whichever broker that is."""
    authorizer: Authorizer | None
    """None means that everybody may do everything (`authorizer.class.name` is empty)."""


class CommonServices(TypedDict):
    """The fields of `Services` as arguments, from which the record of each family is made."""

    broker_id: BrokerId
    settings: LiveSettings
    clock: Clock
    loop: EventLoop
    slices: Slices
    metadata: MetadataCache
    liveness: PeerLiveness
    controller_client: ControllerClient
    authorizer: Authorizer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataServices(Services):
    """For the APIs of records: Produce, Fetch, partition offsets, and the metadata they need."""

    partitions: PartitionTable
    events: PartitionEvents
    purgatory: Purgatory
    fetch_sessions: FetchSessions
    commit_waits: CommitWaits
    checks: TransactionChecks
    transaction_writers: RecentWriters
    counters: BrokerCounters | None
    """None if metrics are disabled."""
    long_work: LongWork
    fetch_max_bytes: int
    has_read_replicas: bool
    """Whether consumers may be told to read from followers (`replica.selector.class`)."""
    api_versions: Callable[[], ApiVersionsAnswers]
    """The present answers to ApiVersions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupServices(Services):
    """For the APIs of consumer groups and their committed offsets."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionServices(Services):
    """For the APIs of transactions."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    checks: TransactionChecks
    transaction_writers: RecentWriters
    markers: MarkerWriter
    partitions: PartitionTable
    producer_ids: ProducerIds


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminServices(Services):
    """For the APIs that administer topics, configs, quotas and log directories."""

    controller: ControllerRequests
    """Refuses with NOT_CONTROLLER if this broker is not the controller."""
    partitions: PartitionTable
    moves: ReplicaMoves
    group_configs: GroupConfigs
    client_metrics: ClientMetrics
    connected: ConnectedClients
    setting_changes: SettingChanges
    quota_changes: QuotaChanges
    departed_brokers: DepartedBrokers
    features: Mapping[str, int]
    """The level of each feature that this broker has, as ApiVersions reports it."""
    topic_settings: Callable[[Mapping[str, str]], Settings]
    """Returns all settings of an existing topic, given the topic's own settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityServices(Services):
    """For the APIs of logins, credentials, delegation tokens and ACLs."""

    controller: ControllerRequests
    """Refuses with NOT_CONTROLLER if this broker is not the controller."""
    credentials: UserCredentials
    tokens: DelegationTokens
    logins: Logins
    acls: AclChanges | None
    """None without an authorizer."""


@dataclass(frozen=True, slots=True)
class ServicesOfFamilies:
    """The records of services, from which the pipeline gives each handler the one it names."""

    data: DataServices
    groups: GroupServices
    transactions: TransactionServices
    admin: AdminServices
    security: SecurityServices

    def by_type(self) -> Mapping[type, Services]:
        """The records by their types."""
        families = (self.data, self.groups, self.transactions, self.admin, self.security)
        return {type(each): each for each in families}
