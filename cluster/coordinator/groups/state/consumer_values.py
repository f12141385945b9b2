"""The stored values of a group of the newer consumer protocol, one per record. Pure.

Kafka: `ConsumerGroupMember`, `Assignment`, `ResolvedRegularExpression`. Each value is replaced as a
whole.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from cluster.coordinator.groups.requests import GroupProtocol
from cluster.coordinator.groups.shared.topics import Partitions

NO_PARTITIONS: Final[Partitions] = {}
NO_EPOCH: Final = -1


class MemberState(IntEnum):
    """The progress of a member towards its target assignment."""

    STABLE = 0
    """The member has the target assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member has to revoke partitions before it enters the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member is in the newest epoch, and waits for others to revoke partitions of its target.
    """
    UNKNOWN = 127
    """Written by a newer broker."""


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The classic part of a member that uses the classic protocol in a group of the newer one."""

    session_timeout_ms: int = 0
    protocols: tuple[GroupProtocol, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """The identity and the subscription of a member."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    """None: the member uses the newer protocol."""

    @property
    def regex(self) -> str | None:
        """The expression of the member; None for an empty one."""
        return self.subscribed_topic_regex or None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The partitions of a member and their epoch."""

    member_epoch: int
    previous_epoch: int
    """Accepted once more, because the reply with the newer epoch may have been lost."""
    state: MemberState
    assigned: Partitions
    revoking: Partitions
    """Partitions that the member was told to revoke."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


NEW_MEMBER: Final = CurrentAssignment(0, NO_EPOCH, MemberState.STABLE, NO_PARTITIONS, NO_PARTITIONS)
"""This object, compared by identity, means that no current assignment is stored."""
NO_METADATA: Final = MemberMetadata()
"""This object, compared by identity, means that no metadata is stored."""


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """The topics that match an expression."""

    topics: frozenset[str]
    version: int
    """The version of Kafka's metadata; 0 here, so that a Kafka broker resolves the expression
    again."""
    timestamp_ms: int
    """Wall time of the resolution."""


class GroupEpoch(NamedTuple):
    """The newest epoch of a group."""

    epoch: int
    metadata_hash: int
    """The hash of the group's subscribed topics; 0 if there are none."""
