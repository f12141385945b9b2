"""What is stored of a group of the newer consumer protocol, record by record. Pure.

Kafka: `ConsumerGroupMember`, `Assignment`, `ResolvedRegularExpression`; each is backed by one
record, and is replaced as a whole.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from cluster.coordinator.groups.requests import GroupProtocol
from cluster.coordinator.groups.shared.topics import Partitions

NO_PARTITIONS: Final[Partitions] = {}
NO_EPOCH: Final = -1


class MemberState(IntEnum):
    """How far a member is with its target assignment."""

    STABLE = 0
    """It has its target, of the epoch that it is in."""
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions before it comes into the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the newest epoch; others have not given up all that it is to have."""
    UNKNOWN = 127
    """Written by a newer broker."""


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """Of a member that uses the classic protocol in a group of the newer one."""

    session_timeout_ms: int = 0
    protocols: tuple[GroupProtocol, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """Who a member is and what it subscribes to."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    """None: it uses the newer protocol."""

    @property
    def regex(self) -> str | None:
        """The expression that it subscribes to; an empty one is none."""
        return self.subscribed_topic_regex or None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What a member has, and in which epoch."""

    member_epoch: int
    previous_epoch: int
    """Accepted once more: the reply with the newer one may have been lost."""
    state: MemberState
    assigned: Partitions
    revoking: Partitions
    """It has been told to give these up."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it has its target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


NEW_MEMBER: Final = CurrentAssignment(0, NO_EPOCH, MemberState.STABLE, NO_PARTITIONS, NO_PARTITIONS)
"""This very object stands for a member of which no current assignment is stored."""
NO_METADATA: Final = MemberMetadata()
"""This very object stands for a member of which no metadata are stored."""


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """The topics that an expression stands for."""

    topics: frozenset[str]
    version: int
    """Of Kafka's metadata; 0 here, so that a broker of Kafka which takes over looks for itself."""
    timestamp_ms: int
    """When, by the calendar."""


class GroupEpoch(NamedTuple):
    """The newest epoch of a group."""

    epoch: int
    metadata_hash: int
    """Of the topics that the group subscribes to; 0 for none."""
