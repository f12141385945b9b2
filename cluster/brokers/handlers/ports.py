"""What handlers may ask of their broker, in small pieces; each names those that it needs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cluster.brokers.groups.group_coordinator import GroupCoordinator
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
from cluster.brokers.stored.group_configs import GroupConfigs
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.brokers.stored.setting_changes import SettingChanges
from cluster.brokers.stored.user_credentials import UserCredentials
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import Settings
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.model.quotas import QuotaClient
from cluster.model.topics import TopicAlteration
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.runtime.clock import Clock
from cluster.runtime.long_work import LongWork
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices


class HasAuthorizer(Protocol):
    """Who may do what."""

    authorizer: Authorizer | None
    """None: everybody may do everything (`authorizer.class.name` is empty)."""


class HasAcls(HasAuthorizer, Protocol):
    """The rules of who may do what, and changing them."""

    acls: AclChanges | None
    """None without an authorizer."""


class HasMetadata(HasAuthorizer, Protocol):
    """The cluster as this broker knows it."""

    metadata: MetadataCache


class HasPartitions(HasMetadata, Protocol):
    """The replicas here, and what is known of the others."""

    partitions: PartitionTable


class HasLongWork(Protocol):
    """Where computations are made that would hold up everybody else."""

    long_work: LongWork


class HasMoves(HasPartitions, Protocol):
    """The replicas here, and those that are on their way to another log directory."""

    moves: ReplicaMoves


class HasLog(Protocol):
    """Where appended batches are announced and counted."""

    events: PartitionEvents
    counters: BrokerCounters | None
    """None where nothing is counted."""


class CanWait(Protocol):
    """Where requests wait, and the clock and the loop for their deadlines."""

    clock: Clock
    loop: EventLoop
    purgatory: Purgatory


class MakesAnswersInSlices(Protocol):
    """Where answers that take long are made in short steps."""

    slices: Slices


class KnowsLiveness(HasMetadata, CanWait, Protocol):
    """The cluster, and which of its brokers show that they are alive."""

    liveness: PeerLiveness


class HasLoop(Protocol):
    """The loop, for the time."""

    loop: EventLoop


class HasSettings(Protocol):
    """The broker's settings."""

    settings: LiveSettings


class HasTopicSettings(Protocol):
    """A topic's settings."""

    @property
    def topic_settings(self) -> Callable[[Mapping[str, str]], Settings]:
        """From the overrides of a topic that exists to all its settings."""
        ...


class HasSettingChanges(Protocol):
    """The broker's settings as the store has them, and changing them there."""

    setting_changes: SettingChanges


class HasController(HasAuthorizer, Protocol):
    """The controller's operations; NOT_CONTROLLER unless this broker is the controller."""

    controller: ControllerRequests


class HasGroups(HasAuthorizer, Protocol):
    """The groups that this broker coordinates."""

    groups: GroupCoordinator


class HasGroupConfigs(Protocol):
    """The configs of groups as the store has them, and changing them there."""

    group_configs: GroupConfigs


class AlterTopicConfigs(Protocol):
    """Has the controller change configs of topics."""

    def __call__(
        self,
        alterations: Sequence[TopicAlteration],
        *,
        validate_only: bool,
        on_done: Callable[[dict[str, Outcome] | None], None],
    ) -> None:
        """Calls back once with the outcome by topic; None when the controller did not answer."""
        ...


class AsksController(Protocol):
    """What any broker asks the controller to do."""

    @property
    def request_topic_creation(self) -> Callable[[list[str], QuotaClient | None], None]:
        """Has missing topics created with default settings, at the cost of one client or none."""
        ...

    @property
    def alter_topic_configs(self) -> AlterTopicConfigs:
        """Has configs of topics changed."""
        ...


class ProducerIdPort(Protocol):
    """Where new producer ids come from."""

    def next_id(self, on_done: Callable[[int | None], None]) -> None:
        """A cluster-wide unique producer id; None when the store cannot be reached."""
        ...


class HasProducerIds(HasAuthorizer, Protocol):
    """New producer ids."""

    producer_ids: ProducerIdPort


class HasQuotaChanges(HasAuthorizer, Protocol):
    """Quotas as the store has them, and changing them there."""

    quota_changes: QuotaChanges


class HasLogins(Protocol):
    """The logins of connections."""

    logins: Logins


class HasCredentials(HasController, HasAuthorizer, Protocol):
    """The SCRAM credentials of users, which the controller alters."""

    credentials: UserCredentials


class HasApiVersions(Protocol):
    """The APIs of this broker."""

    api_versions: ApiVersionsAnswers


class HasBrokerId(Protocol):
    """Which broker this is."""

    broker_id: BrokerId
