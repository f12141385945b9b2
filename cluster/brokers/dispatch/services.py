"""The collaborators of one broker, of which each handler sees the few that it names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cluster.brokers.groups.group_coordinator import GroupCoordinator
from cluster.brokers.handlers.ports import AlterTopicConfigs, ProducerIdPort
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.peer_liveness import PeerLiveness
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.security.authorizer import Authorizer
from cluster.brokers.security.logins import Logins
from cluster.brokers.storage.replica_moves import ReplicaMoves
from cluster.brokers.stored.acl_changes import AclChanges
from cluster.brokers.stored.delegation_tokens import DelegationTokens
from cluster.brokers.stored.group_configs import GroupConfigs
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.brokers.stored.setting_changes import SettingChanges
from cluster.brokers.stored.user_credentials import UserCredentials
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import Settings
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.model.ids import BrokerId
from cluster.model.quotas import QuotaClient
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.runtime.clock import Clock
from cluster.runtime.long_work import LongWork
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices


@dataclass(slots=True, kw_only=True)
class Services:
    """Made once, when the broker is put together."""

    broker_id: BrokerId
    settings: LiveSettings
    clock: Clock
    loop: EventLoop
    slices: Slices
    long_work: LongWork
    metadata: MetadataCache
    liveness: PeerLiveness
    partitions: PartitionTable
    moves: ReplicaMoves
    events: PartitionEvents
    purgatory: Purgatory
    controller: ControllerRequests
    groups: GroupCoordinator
    group_configs: GroupConfigs
    request_topic_creation: Callable[[list[str], QuotaClient | None], None]
    alter_topic_configs: AlterTopicConfigs
    producer_ids: ProducerIdPort
    topic_settings: Callable[[Mapping[str, str]], Settings]
    quota_changes: QuotaChanges
    credentials: UserCredentials
    tokens: DelegationTokens
    logins: Logins
    setting_changes: SettingChanges
    fetch_max_bytes: int
    api_versions: ApiVersionsAnswers
    counters: BrokerCounters | None
    authorizer: Authorizer | None
    acls: AclChanges | None
