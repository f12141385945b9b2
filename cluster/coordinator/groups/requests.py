"""Requests to the group coordinator and its replies, independent of protocol versions.

Kafka: the request data of JoinGroup, SyncGroup and the others; what only some versions have is
a field here, with what its absence means as the default.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster.coordinator.shards.requests import Query, Request
from cluster.model.error_codes import ErrorCode

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1


class GroupProtocol(NamedTuple):
    """An assignment protocol of a member; for a consumer, its assignor and subscription."""

    name: str
    metadata: bytes


class JoinedMember(NamedTuple):
    """A member as its leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes
    """The metadata for the chosen protocol."""


@dataclass(frozen=True, slots=True)
class JoinGroupReply:
    """The generation that the member belongs to, or an error."""

    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    """None with an error: version 7 and later send null, earlier ones an empty text."""
    leader: str = NO_MEMBER_ID
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """Empty except for the leader."""


@dataclass(frozen=True, slots=True)
class JoinGroup(Request[JoinGroupReply]):
    """A member asks to belong to the next generation."""

    group_id: str
    member_id: str
    """Empty for a new member."""
    client_id: str
    client_host: str
    """In Kafka's form, such as `/127.0.0.1`."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """The session timeout before version 1."""
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    """Ordered by the member's preference."""
    group_instance_id: str | None = None
    requires_known_member_id: bool = True
    """Version 4 and later (KIP-394): a new dynamic member gets its id and has to join again."""
    supports_skipping_assignment: bool = True
    """Version 9 and later (KIP-814)."""
    reason: str = ""
    """The reason to join (KIP-800), for the log and the history."""


@dataclass(frozen=True, slots=True)
class SyncGroupReply:
    """The assignment of a member, or an error."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class SyncGroup(Request[SyncGroupReply]):
    """A member asks for its assignment; the leader provides those of all members.

    Version 5 and later must name protocol type and protocol (INCONSISTENT_GROUP_PROTOCOL): the
    handler checks it, since None here means an earlier version.
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    """By member id; empty except for the leader."""


@dataclass(frozen=True, slots=True)
class Heartbeat(Query[ErrorCode]):
    """A member postpones the end of its session and asks whether it must rejoin."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class LeavingMember(NamedTuple):
    """A leaving member, named by its member id, or by its instance id and an empty member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


class LeftMember(NamedTuple):
    """The result for one leaving member."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveGroupReply:
    """The results for all members, in the order of the request."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaveGroup(Request[LeaveGroupReply]):
    """Members leave. Before version 3 there is one, whose error is that of the whole response."""

    group_id: str
    members: tuple[LeavingMember, ...]


class OffsetToCommit(NamedTuple):
    """The next offset to read from a partition, which exists according to the handler."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    """Empty where the request has null."""


class PartitionError(NamedTuple):
    """The result for one partition of a request."""

    topic: str
    partition: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class CommitReply:
    """The results for all offsets, in the order of the request."""

    partitions: tuple[PartitionError, ...]


@dataclass(frozen=True, slots=True)
class CommitOffsets(Request[CommitReply]):
    """OffsetCommit. A consumer without membership has generation -1 and an empty member id."""

    group_id: str
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    retention_ms: int = -1
    """Versions 2 to 4; -1 stands for `offsets.retention.minutes`."""
    knows_member_epochs: bool = True
    """Version 9 and later, in which the generation may be a member epoch of the newer consumer
    protocol. Members of that protocol get UNSUPPORTED_VERSION for earlier versions."""


@dataclass(frozen=True, slots=True)
class TransactionalCommit(Request[CommitReply]):
    """TxnOffsetCommit: offsets that become visible when the producer's transaction is committed."""

    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None


class TopicPartitions(NamedTuple):
    """The partitions of one topic in a request."""

    topic: str
    partitions: tuple[int, ...]


class FetchedOffset(NamedTuple):
    """A committed offset; -1 without an error if there is none."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The requested offsets, in the order of the request."""

    error: ErrorCode
    offsets: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchOffsets(Query[FetchedOffsets]):
    """OffsetFetch of one group."""

    group_id: str
    topics: tuple[TopicPartitions, ...] | None = None
    """None requests all offsets of the group."""
    require_stable: bool = False
    """UNSTABLE_OFFSET_COMMIT for offsets that an open transaction has committed (KIP-447)."""
    member_id: str | None = None
    """Version 9 and later, with `member_epoch`: a member of the newer consumer protocol. Classic
    groups ignore it."""
    member_epoch: int = -1


@dataclass(frozen=True, slots=True)
class DeleteOffsetsReply:
    """An error of the group, or the results for all partitions in the order of the request."""

    error: ErrorCode
    partitions: tuple[PartitionError, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteOffsets(Request[DeleteOffsetsReply]):
    """OffsetDelete."""

    group_id: str
    topics: tuple[TopicPartitions, ...]


class DeletedGroup(NamedTuple):
    """The result for one group."""

    group_id: str
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class DeleteGroupsReply:
    """The results for all groups, in the order of the request."""

    groups: tuple[DeletedGroup, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroups(Request[DeleteGroupsReply]):
    """DeleteGroups, for groups of one shard."""

    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicsDeleted(Request[None]):
    """Topics were deleted: offsets that were committed for them until now are removed, in the
    background."""

    topics: Collection[str]


@dataclass(frozen=True, slots=True)
class TopicsChanged(Request[None]):
    """Topics were created, deleted or given more partitions: groups of the newer consumer protocol
    that subscribe to them, by name or by expression, compute a new assignment at their next
    heartbeat. Deleted topics are also reported by `TopicsDeleted`."""

    topics: Collection[str]


class DescribedMember(NamedTuple):
    """A member as DescribeGroups shows it; metadata and assignment are empty unless Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as DescribeGroups shows it."""

    group_id: str
    state: str
    """`Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable`"""
    protocol_type: str
    protocol: str
    """Empty unless Stable."""
    members: tuple[DescribedMember, ...] = ()


class ListedGroup(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    """Empty for a group that only has committed offsets."""
    state: str
    group_type: str
    """`classic` or `consumer`"""
