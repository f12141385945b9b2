"""The store of the cluster's state outside its brokers, as operations on domain types.

Registrations that end with their owner, topics and their partitions' states, configs, sequences of
ids. Every operation blocks and runs on a thread of the store's own; a `StoreSession` runs it and
hands the result back to the broker's loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NewType, Protocol, TypeVar

from cluster.model.acls import AclEntry, PatternType, ResourcePattern
from cluster.model.clocks import WallMs
from cluster.model.cluster import BrokerRegistration, ClusterState
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from cluster.model.plan import Plan
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.model.scram import ScramCredential
from cluster.model.security import SaslMechanism

StoreVersion = NewType("StoreVersion", int)
"""Opaque: what a conditional write names to say what it was made from."""
NO_VERSION: Final = StoreVersion(-1)

Quotas = dict[QuotaEntity, dict[QuotaKind, float]]
Credentials = dict[str, dict[SaslMechanism, ScramCredential]]
"""By user."""
OnChange = Callable[[], None]
"""Called once, on the broker's loop, when what was read has changed; read again to watch again."""


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome of a campaign; `epoch` is None when another broker is the controller."""

    controller: BrokerId
    epoch: ControllerEpoch | None = None
    epoch_version: StoreVersion = NO_VERSION
    """What every write of this controller is conditional on."""


class LoadedCluster(NamedTuple):
    """What a new controller begins with.

    `written` has the transaction number of each partition state's last write. Broker epochs are
    transaction numbers too: a broker with a larger one has registered since. `recorded` has that of
    each broker's record of its log directories, which follows when a controller has taken into
    account what its registration says of them.
    """

    state: ClusterState
    written: dict[TopicPartition, BrokerEpoch]
    recorded: dict[BrokerId, BrokerEpoch]


class StoredConfig(NamedTuple):
    """What is stored for one broker, for all brokers (KIP-226) or for one group."""

    texts: dict[str, str]
    version: StoreVersion
    problem: str | None = None
    """Why the texts are empty although something is stored, in a line for the log."""


class StoredAcls(NamedTuple):
    """The rules that are stored for one pattern of names of resources."""

    entries: frozenset[AclEntry]
    problem: str | None = None
    """Why the rules are not known although something is stored, in a line for the log."""


class AclNews(NamedTuple):
    """What is stored for patterns of one type: for all of them, or for those that have changed."""

    acls: dict[ResourcePattern, StoredAcls]
    seen: frozenset[str]
    """The change nodes that were there."""
    is_whole: bool
    """Patterns that are not in `acls` have no rules, rather than the same as before."""


class TokenNews(NamedTuple):
    """Delegation tokens by id: all of them, or those that have changed, None for one that is gone
    or cannot be read.
    """

    tokens: dict[str, DelegationToken | None]
    seen: frozenset[str]
    """The change nodes that were there."""
    is_whole: bool
    """There are no others than those in `tokens`, rather than the same as before."""


class ChangedTopics(NamedTuple):
    """Topics whose configs somebody has changed, up to the change of that number."""

    last: int
    names: frozenset[str]


class Deposed(Exception):
    """Another controller has taken over: nothing was written."""


class OutOfStep(Exception):
    """The registry does not hold what the plan was made from: somebody else has written there."""


STORE_FULL: Final = (
    "the disk of the registry is full, and nothing was changed: free space there; deleting topics"
    " needs none"
)


class StoreFull(Exception):
    """The registry has no room for this on its disk: nothing was written."""


class ClusterStore(Protocol):
    """Blocking operations; each may raise the adapter's own error when the store is unreachable."""

    def prepare(self) -> None:
        """Create the parents of all records, where they are missing."""
        ...

    def cluster_id(self) -> str:
        """The cluster's id, made by the first broker ever. Raises UserError when it is none."""
        ...

    def login_secret(self, proposed: bytes) -> bytes:
        """What salts of unknown users are made up with, the same on every broker: what is stored,
        else what is proposed, which is stored. Raises UserError when it is none.
        """
        ...

    def register_broker(self, registration: BrokerRegistration, wall_ms: WallMs) -> BrokerEpoch:
        """Announce a broker while the session lives; its epoch, larger than any before.

        Raises UserError when its id is taken by a live broker.
        """
        ...

    def live_brokers(self, on_change: OnChange | None = None) -> list[BrokerRegistration]:
        """Every registered broker; `on_change` is called when one comes or goes."""
        ...

    def load_log_directories(self, broker: BrokerId) -> dict[str, int] | None:
        """Generations of a broker's log directories by their ids; None where none are stored."""
        ...

    def write_log_directories(self, broker: BrokerId, generations: Mapping[str, int]) -> None:
        """Store the generations of a broker's log directories."""
        ...

    def campaign(self, broker: BrokerId, wall_ms: WallMs) -> Election:
        """Try to become the controller; who is, and the new epoch if it is this broker."""
        ...

    def watch_controller(self, on_change: OnChange) -> BrokerId | None:
        """Who is the controller (None: nobody); `on_change` is called when that changes."""
        ...

    def load_cluster(self, version: StoreVersion) -> LoadedCluster:
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
        """Write a plan made from `state`, and fill `learned` with what it asks to be read.

        Raises Deposed or OutOfStep; then not all is written. Raises StoreFull; then nothing is.
        """
        ...

    def next_producer_ids(self, broker: BrokerId) -> range:
        """A block of producer ids that no other broker has or will have. Raises ValueError."""
        ...

    def load_broker_config(
        self, broker: BrokerId | None, on_change: OnChange | None = None
    ) -> StoredConfig:
        """What is stored for a broker, or for all (None); `on_change` is called when it changes."""
        ...

    def write_broker_config(
        self, broker: BrokerId | None, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
    ) -> bool:
        """Replace what was read as `version` for a broker, or for all (None), and notify others.

        False where it has changed since; then nothing is written.
        """
        ...

    def load_group_configs(self, on_change: OnChange | None = None) -> dict[str, dict[str, str]]:
        """Configs of groups by group id; `on_change` is called when a config changes after this."""
        ...

    def load_group_config(self, group: str) -> StoredConfig:
        """What is stored for a group."""
        ...

    def write_group_config(
        self, group: str, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
    ) -> bool:
        """Replace what was read as `version` for a group, and notify others.

        False where it has changed since; then nothing is written.
        """
        ...

    def changed_topics(self, after: int | None, on_change: OnChange | None = None) -> ChangedTopics:
        """The topics whose configs were changed after the change of that number.

        None: only the number of the last change. `on_change` is called at the next change.
        """
        ...

    def load_acls(
        self,
        pattern_type: PatternType,
        seen: frozenset[str] | None,
        on_change: OnChange | None = None,
    ) -> AclNews:
        """Rules for patterns of a type, LITERAL or PREFIXED: those that were changed by other
        change nodes than `seen`, or all (None). `on_change` is called when there is another one.
        """
        ...

    def change_acls(
        self,
        pattern: ResourcePattern,
        change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
        wall_ms: WallMs,
    ) -> StoredAcls:
        """Change the rules for a pattern, and notify others; what is stored now.

        `change` may be called several times. Where the rules cannot be read nothing is changed.
        """
        ...

    def load_quotas(self, on_change: OnChange | None = None) -> Quotas:
        """All quotas; `on_change` is called when a config changes after this has read them."""
        ...

    def alter_quota(
        self, entity: QuotaEntity, changes: Mapping[str, str | None], wall_ms: WallMs
    ) -> None:
        """Merge changes by Kafka's quota keys (None removes one) and notify every broker."""
        ...

    def load_tokens(
        self, seen: frozenset[str] | None, on_change: OnChange | None = None
    ) -> TokenNews:
        """Delegation tokens: all of them, or where `seen` names the change nodes of an earlier
        call, those that have changed. `on_change` is called when one changes after this.
        """
        ...

    def write_token(self, token: DelegationToken, wall_ms: WallMs) -> None:
        """Write a delegation token, new or changed, and notify every broker."""
        ...

    def remove_token(self, token_id: str, wall_ms: WallMs) -> None:
        """Remove a delegation token, if it is there, and notify every broker."""
        ...

    def load_credentials(self, on_change: OnChange | None = None) -> Credentials:
        """All SCRAM credentials; `on_change` is called when a config changes after this."""
        ...

    def alter_credentials(
        self,
        user: str,
        changes: Mapping[SaslMechanism, ScramCredential | None],
        wall_ms: WallMs,
    ) -> None:
        """Set credentials of a user (None removes one) and notify every broker."""
        ...


T = TypeVar("T")


class StoreSession(Protocol):
    """One broker's session with the store. Callbacks run on the broker's loop."""

    on_session_lost: Callable[[], None]
    on_session_begun: Callable[[], None]
    """A new session replaces one that expired: the broker has to register again."""

    def call(self, operation: Callable[[ClusterStore], T]) -> T:
        """Blocking, for start-up only."""
        ...

    def submit(
        self,
        operation: Callable[[ClusterStore], T],
        on_done: Callable[[T], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Run an operation on the store's thread, in order; then a callback on the loop."""
        ...
