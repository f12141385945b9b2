"""The `ClusterStore` over ZooKeeper's protocol, by kazoo's client."""

from collections.abc import Callable, Mapping

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.cluster_store import (
    AclNews,
    ChangedTopics,
    Credentials,
    Election,
    LoadedCluster,
    OnChange,
    Quotas,
    StoredAcls,
    StoredConfig,
    StoreVersion,
    TokenNews,
)
from cluster.coordinator.registry.client import (
    acl_records,
    broker_records,
    config_records,
    credential_records,
    quota_records,
    token_records,
    topic_records,
)
from cluster.model.acls import AclEntry, PatternType, ResourcePattern
from cluster.model.clocks import WallMs
from cluster.model.cluster import BrokerRegistration, ClusterState
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch
from cluster.model.plan import Plan
from cluster.model.quotas import QuotaEntity
from cluster.model.scram import ScramCredential
from cluster.model.security import SaslMechanism

MakeWatch = Callable[[OnChange], Callable[[WatchedEvent], None]]


class KazooStore:
    """A `ClusterStore`. Used by one thread, the session's.

    `client` is public for the tests of this adapter.
    """

    def __init__(self, client: KazooClient, make_watch: MakeWatch) -> None:
        """`make_watch` turns a callback into a watch function for one call of the client."""
        self.client = client
        self.make_watch = make_watch

    def prepare(self) -> None:
        """Make the persistent parents that are missing."""
        broker_records.prepare_paths(self.client)

    def cluster_id(self) -> str:
        """See `broker_records.cluster_id`."""
        return broker_records.cluster_id(self.client)

    def login_secret(self, proposed: bytes) -> bytes:
        """See `broker_records.login_secret`."""
        return broker_records.login_secret(self.client, proposed)

    def register_broker(self, registration: BrokerRegistration, wall_ms: WallMs) -> BrokerEpoch:
        """See `broker_records.register_broker`."""
        return broker_records.register_broker(self.client, registration, wall_ms)

    def live_brokers(self, on_change: OnChange | None = None) -> list[BrokerRegistration]:
        """See `broker_records.live_brokers`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return broker_records.live_brokers(self.client, watch)

    def load_log_directories(self, broker: BrokerId) -> dict[str, int] | None:
        """See `broker_records.load_log_directories`."""
        return broker_records.load_log_directories(self.client, broker)

    def write_log_directories(self, broker: BrokerId, generations: Mapping[str, int]) -> None:
        """See `broker_records.write_log_directories`."""
        broker_records.write_log_directories(self.client, broker, generations)

    def campaign(self, broker: BrokerId, wall_ms: WallMs) -> Election:
        """See `broker_records.campaign`."""
        return broker_records.campaign(self.client, broker, wall_ms)

    def watch_controller(self, on_change: OnChange) -> BrokerId | None:
        """See `broker_records.watch_controller`."""
        return broker_records.watch_controller(self.client, self.make_watch(on_change))

    def load_cluster(self, version: StoreVersion) -> LoadedCluster:
        """See `topic_records.load_cluster`."""
        return topic_records.load_cluster(self.client, version)

    def commit(
        self,
        plan: Plan,
        state: ClusterState,
        controller_epoch: ControllerEpoch,
        version: StoreVersion,
    ) -> None:
        """See `topic_records.commit`."""
        topic_records.commit(self.client, plan, state, controller_epoch, version)

    def next_producer_ids(self, broker: BrokerId) -> range:
        """See `broker_records.next_producer_ids`."""
        return broker_records.next_producer_ids(self.client, broker)

    def load_broker_config(
        self, broker: BrokerId | None, on_change: OnChange | None = None
    ) -> StoredConfig:
        """See `config_records.load_broker_config`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return config_records.load_broker_config(self.client, broker, watch)

    def write_broker_config(
        self, broker: BrokerId | None, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
    ) -> bool:
        """See `config_records.write_broker_config`."""
        return config_records.write_broker_config(self.client, broker, texts, version, wall_ms)

    def load_group_configs(self, on_change: OnChange | None = None) -> dict[str, dict[str, str]]:
        """See `config_records.load_group_configs`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return config_records.load_group_configs(self.client, watch)

    def load_group_config(self, group: str) -> StoredConfig:
        """See `config_records.load_group_config`."""
        return config_records.load_group_config(self.client, group)

    def write_group_config(
        self, group: str, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
    ) -> bool:
        """See `config_records.write_group_config`."""
        return config_records.write_group_config(self.client, group, texts, version, wall_ms)

    def changed_topics(self, after: int | None, on_change: OnChange | None = None) -> ChangedTopics:
        """See `config_records.changed_topics`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return config_records.changed_topics(self.client, after, watch)

    def load_acls(
        self,
        pattern_type: PatternType,
        seen: frozenset[str] | None,
        on_change: OnChange | None = None,
    ) -> AclNews:
        """See `acl_records.load_acls`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return acl_records.load_acls(self.client, pattern_type, seen, watch)

    def change_acls(
        self,
        pattern: ResourcePattern,
        change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
        wall_ms: WallMs,
    ) -> StoredAcls:
        """See `acl_records.change_acls`."""
        return acl_records.change_acls(self.client, pattern, change, wall_ms)

    def load_quotas(self, on_change: OnChange | None = None) -> Quotas:
        """See `quota_records.load_quotas`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return quota_records.load_quotas(self.client, watch)

    def alter_quota(
        self, entity: QuotaEntity, changes: Mapping[str, str | None], wall_ms: WallMs
    ) -> None:
        """See `quota_records.alter_quota`."""
        quota_records.alter_quota(self.client, entity, changes, wall_ms)

    def load_tokens(
        self, seen: frozenset[str] | None, on_change: OnChange | None = None
    ) -> TokenNews:
        """See `token_records.load_tokens`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return token_records.load_tokens(self.client, seen, watch)

    def write_token(self, token: DelegationToken, wall_ms: WallMs) -> None:
        """See `token_records.write_token`."""
        token_records.write_token(self.client, token, wall_ms)

    def remove_token(self, token_id: str, wall_ms: WallMs) -> None:
        """See `token_records.remove_token`."""
        token_records.remove_token(self.client, token_id, wall_ms)

    def load_credentials(self, on_change: OnChange | None = None) -> Credentials:
        """See `credential_records.load_credentials`."""
        watch = None if on_change is None else self.make_watch(on_change)
        return credential_records.load_credentials(self.client, watch)

    def alter_credentials(
        self,
        user: str,
        changes: Mapping[SaslMechanism, ScramCredential | None],
        wall_ms: WallMs,
    ) -> None:
        """See `credential_records.alter_credentials`."""
        credential_records.alter_credentials(self.client, user, changes, wall_ms)
