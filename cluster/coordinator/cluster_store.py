"""The store that keeps a cluster's state outside its brokers: one interface per kind of document.

Every operation blocks and runs on the store's own thread; a `StoreSession` runs it and hands the
result back to the broker's loop.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, NewType, Protocol, TypeVar

from cluster.model.acls import AclEntry, PatternType, ResourcePattern
from cluster.model.clocks import WallMs
from cluster.model.cluster import BrokerRegistration, ClusterState
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from cluster.model.plan import Outcome, Plan
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.model.scram import ScramCredential
from cluster.model.security import SaslMechanism

StoreVersion = NewType("StoreVersion", int)
"""Opaque: a conditional write names the version that it replaces."""
NO_VERSION: Final = StoreVersion(-1)

Quotas = dict[QuotaEntity, dict[QuotaKind, float]]
Credentials = dict[str, dict[SaslMechanism, ScramCredential]]
"""By user."""
OnChange = Callable[[], None]
"""Called once, on the broker's loop, when what was read has changed. Read again to watch again."""
RETRY_MS: Final = 500
"""The delay before an operation of the store that failed is tried again."""


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome of a campaign; `epoch` is None when another broker is the controller."""

    controller: BrokerId
    epoch: ControllerEpoch | None = None
    epoch_version: StoreVersion = NO_VERSION
    """Every write of this controller is conditional on it."""


class LoadedCluster(NamedTuple):
    """The state that a new controller starts from.

    `written` has the transaction number of each partition state's last write. Broker epochs are
    transaction numbers too: a broker with a larger one has registered since. `recorded` has the
    transaction number of each broker's record of its log directories; a broker writes that record
    once a controller has acted on the log directories in its registration.
    """

    state: ClusterState
    written: dict[TopicPartition, BrokerEpoch]
    recorded: dict[BrokerId, BrokerEpoch]


class ConfigKind(StrEnum):
    """Whose configs; the values are Kafka's names in change nodes."""

    BROKER = "brokers"
    GROUP = "groups"
    CLIENT_METRICS = "client-metrics"


class ConfigOwner(NamedTuple):
    """One broker, all brokers (KIP-226), one group or one client metrics subscription."""

    kind: ConfigKind
    name: str | None
    """None: all of that kind."""


def broker_config(broker: BrokerId | None) -> ConfigOwner:
    """The owner of the config of one broker, or of all brokers (None)."""
    return ConfigOwner(ConfigKind.BROKER, None if broker is None else str(broker))


def group_config(group_id: str) -> ConfigOwner:
    return ConfigOwner(ConfigKind.GROUP, group_id)


def client_metrics_config(name: str) -> ConfigOwner:
    return ConfigOwner(ConfigKind.CLIENT_METRICS, name)


class StoredConfig(NamedTuple):
    """The stored values of one owner by setting."""

    texts: dict[str, str]
    version: StoreVersion
    problem: str | None = None
    """Why a stored config could not be read, as a line for the log; `texts` is empty then."""


class StoredAcls(NamedTuple):
    """The stored rules for one pattern of resource names."""

    entries: frozenset[AclEntry]
    problem: str | None = None
    """Why stored rules could not be read, as a line for the log; `entries` is empty then."""


class AclNews(NamedTuple):
    """The stored rules for patterns of one type: for all patterns, or for the changed ones."""

    acls: dict[ResourcePattern, StoredAcls]
    seen: frozenset[str]
    """The change nodes that existed when the rules were read."""
    is_whole: bool
    """Whether patterns that are not in `acls` have no rules; otherwise theirs have not changed."""


class TokenNews(NamedTuple):
    """Delegation tokens by id: all of them, or the changed ones. None stands for a token that is
    gone or cannot be read.
    """

    tokens: dict[str, DelegationToken | None]
    seen: frozenset[str]
    """The change nodes that existed when the tokens were read."""
    is_whole: bool
    """Whether `tokens` has all of them; otherwise the others have not changed."""


class ChangedTopics(NamedTuple):
    """Topics whose configs have changed, up to the change with the number `last`."""

    last: int
    names: frozenset[str]


class NodeReassignments(NamedTuple):
    """What a node asks for: the replicas that partitions should have."""

    targets: dict[TopicPartition, tuple[BrokerId, ...]]
    version: StoreVersion


class NodeElections(NamedTuple):
    """What a node asks for: partitions whose preferred replicas should lead."""

    partitions: tuple[TopicPartition, ...]
    version: StoreVersion


class Deposed(Exception):
    """Another controller has taken over: nothing was written."""


class OutOfStep(Exception):
    """The stored state is not the one that the plan was made from: somebody else has written."""


STORE_FULL: Final = (
    "the disk of the registry is full, and nothing was changed: free space there; deleting topics"
    " needs none"
)


class StoreFull(Exception):
    """The disk of the registry is full: nothing was written."""


def outcome_of(error: Exception) -> Outcome:
    """The answer to a client whose change an operation of the store has failed to make."""
    if isinstance(error, Refused):
        return Outcome(error.code, error.detail)
    if isinstance(error, StoreFull):
        return Outcome(ErrorCode.kafka_storage_error, str(error))
    return Outcome(ErrorCode.unknown_server_error, f"the registry did not take it: {error!r}")


class BrokerStore(Protocol):
    """Registrations of brokers, and which log directories each broker has in use."""

    def prepare(self) -> None:
        """Create the missing parents of all records."""
        ...

    def check_free(self, broker: BrokerId) -> None:
        """Raise UserError when a live broker has this id."""
        ...

    def register(self, registration: BrokerRegistration, wall_ms: WallMs) -> BrokerEpoch:
        """Announce a broker for as long as the session lives; returns its epoch, which is larger
        than any before.

        Raises UserError when a live broker has the same id.
        """
        ...

    def live(self, on_change: OnChange | None = None) -> list[BrokerRegistration]:
        """Every registered broker; `on_change` is called when one registers or leaves."""
        ...

    def forget(self, broker: BrokerId) -> None:
        """Remove the record of a broker's log directories.

        Raises Refused if the broker is alive, or there is no record.
        """
        ...

    def log_directories(self, broker: BrokerId) -> dict[str, int] | None:
        """The generations of a broker's log directories by their ids; None if none are stored."""
        ...

    def write_log_directories(self, broker: BrokerId, generations: Mapping[str, int]) -> None: ...


class ElectionStore(Protocol):
    """Which broker is the controller."""

    def campaign(self, broker: BrokerId, wall_ms: WallMs) -> Election:
        """Try to become the controller; returns who is, with the new epoch if it is this broker."""
        ...

    def watch(self, on_change: OnChange) -> BrokerId | None:
        """The present controller, if any; `on_change` is called when that changes."""
        ...


class TopicStore(Protocol):
    """Topics, their configs and the states of their partitions. Only the controller writes them."""

    def load(self, version: StoreVersion) -> LoadedCluster:
        """All topics with their partitions, for the controller of that version.

        Raises Deposed, OutOfStep; ValueError for a record that cannot be read.
        """
        ...

    def commit(
        self,
        plan: Plan,
        state: ClusterState,
        controller_epoch: ControllerEpoch,
        version: StoreVersion,
    ) -> None:
        """Write a plan made from `state`, and fill `learned` with the configs that it asks for.

        Raises Deposed or OutOfStep when another writer was faster; part of the plan may have been
        written. Raises StoreFull when nothing was written.
        """
        ...

    def changed_configs(
        self, after: int | None, on_change: OnChange | None = None
    ) -> ChangedTopics:
        """The topics whose configs were changed after the change of that number.

        None: only the number of the last change. `on_change` is called at the next change.
        """
        ...


class ConfigStore(Protocol):
    """Configs of brokers, groups and client metrics subscriptions."""

    def load(self, owner: ConfigOwner, on_change: OnChange | None = None) -> StoredConfig:
        """`on_change` is called when this config changes, whether it was announced or not."""
        ...

    def write(
        self, owner: ConfigOwner, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
    ) -> bool:
        """Replace the config that was read as `version`, and notify every broker.

        False when it has changed since; then nothing is written.
        """
        ...

    def load_all(
        self, kind: ConfigKind, on_change: OnChange | None = None
    ) -> dict[str, dict[str, str]]:
        """The configs of one kind by name, unless empty; `on_change` is called when any config
        changes.
        """
        ...


class QuotaStore(Protocol):
    """Quotas of users, client ids and addresses."""

    def load(self, on_change: OnChange | None = None) -> Quotas:
        """All quotas; `on_change` is called when any config changes."""
        ...

    def alter(
        self, entity: QuotaEntity, changes: Mapping[str, str | None], wall_ms: WallMs
    ) -> None:
        """Merge changes by Kafka's quota keys (None removes one), and notify every broker."""
        ...


class AclStore(Protocol):
    """Access rules."""

    def load(
        self,
        pattern_type: PatternType,
        seen: frozenset[str] | None,
        on_change: OnChange | None = None,
    ) -> AclNews:
        """Rules for LITERAL or for PREFIXED patterns: those that change nodes other than `seen`
        name, or all of them (None). `on_change` is called at the next change.
        """
        ...

    def change(
        self,
        pattern: ResourcePattern,
        change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
        wall_ms: WallMs,
    ) -> StoredAcls:
        """Change the rules for a pattern, notify every broker and return the stored rules.

        `change` may be called several times. Rules that cannot be read are not changed.
        """
        ...


class CredentialStore(Protocol):
    """SCRAM credentials of users."""

    def load(self, on_change: OnChange | None = None) -> Credentials:
        """All credentials; `on_change` is called when any config changes."""
        ...

    def alter(
        self,
        user: str,
        changes: Mapping[SaslMechanism, ScramCredential | None],
        wall_ms: WallMs,
    ) -> None:
        """Set credentials of a user (None removes one), and notify every broker."""
        ...


class TokenStore(Protocol):
    """Delegation tokens."""

    def load(self, seen: frozenset[str] | None, on_change: OnChange | None = None) -> TokenNews:
        """The tokens that change nodes other than `seen` name, or all of them (None). `on_change`
        is called at the next change.
        """
        ...

    def write(self, token: DelegationToken, wall_ms: WallMs) -> None:
        """Create or replace a token, and notify every broker."""
        ...

    def remove(self, token_id: str, wall_ms: WallMs) -> None:
        """Remove a token, if it exists, and notify every broker."""
        ...


class IdStore(Protocol):
    """What exists once in a cluster, and is made by the first broker that asks for it."""

    def cluster_id(self) -> str:
        """Raises UserError when the stored id cannot be read."""
        ...

    def login_secret(self, proposed: bytes) -> bytes:
        """The secret from which every broker makes up salts of unknown users: the stored one, else
        the proposed one, which is stored. Raises UserError when the stored one cannot be read.
        """
        ...

    def next_broker_id(self, reserved_max: int) -> int:
        """An id for a new broker above `reserved_max` that no broker was given before."""
        ...

    def next_producer_ids(self, broker: BrokerId) -> range:
        """A block of producer ids that no other broker has or will have. Raises ValueError."""
        ...


class AdminStore(Protocol):
    """What other tools ask the controller for by nodes that they create (below `/admin`).

    Loading removes a node that cannot be read, with a line in the log. `controller` is the version
    of the controller, as in `TopicStore`; writes raise Deposed, and write nothing to a node that
    has changed since.
    """

    def load_reassignments(
        self, controller: StoreVersion, on_change: OnChange | None = None
    ) -> NodeReassignments | None:
        """None: there is no such node. `on_change` is called when it is created or changes."""
        ...

    def write_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[BrokerId, ...]],
        version: StoreVersion,
        controller: StoreVersion,
    ) -> StoreVersion:
        """Replace what the node of that version asks for, or remove the node if nothing is left.

        Returns its new version.
        """
        ...

    def load_elections(
        self, controller: StoreVersion, on_change: OnChange | None = None
    ) -> NodeElections | None:
        """None: there is no such node. `on_change` is called when it is created or changes."""
        ...

    def remove_elections(self, version: StoreVersion, controller: StoreVersion) -> None: ...

    def load_deletions(self, on_change: OnChange | None = None) -> frozenset[str]:
        """The names of the topics to delete; `on_change` is called when there are others."""
        ...

    def remove_deletions(self, names: Iterable[str], controller: StoreVersion) -> None: ...


@dataclass(frozen=True, slots=True)
class ClusterStore:
    """One store for each family of documents.

    Operations block. Each may raise the adapter's own error when the store cannot be reached.
    """

    brokers: BrokerStore
    election: ElectionStore
    topics: TopicStore
    configs: ConfigStore
    quotas: QuotaStore
    acls: AclStore
    credentials: CredentialStore
    tokens: TokenStore
    ids: IdStore
    admin: AdminStore


T = TypeVar("T")


class StoreSession(Protocol):
    """One broker's session with the store. Callbacks run on the broker's loop."""

    def follow_session(self, on_lost: Callable[[], None], on_begun: Callable[[], None]) -> None:
        """Have `on_lost` called when the session expires, and `on_begun` when a new one replaces
        it: the broker then has to register again.
        """
        ...

    def call(self, operation: Callable[[ClusterStore], T]) -> T:
        """Run an operation and wait for it; only while the broker starts."""
        ...

    def submit(
        self,
        operation: Callable[[ClusterStore], T],
        on_done: Callable[[T], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Run an operation on the store's thread, in order; then a callback on the loop."""
        ...
