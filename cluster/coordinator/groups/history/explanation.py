"""A group and its rebalances as the coordinator sends them to `groups explain`. Pure.

The body of a request that Kafka does not have (docs/decisions/024-why-groups-rebalance.md):
msgpack, with fields in the order of the classes; each field is checked when it is decoded.
"""

from dataclasses import dataclass
from typing import Final

from cluster.coordinator.groups.history.rebalances import (
    Cause,
    CauseKind,
    Rebalance,
    SlowMember,
    WhoseMember,
)
from cluster.coordinator.groups.requests import TopicPartitions
from cluster.model.error_codes import ErrorCode
from cluster.protocol.peer.field_types import (
    BOOLEAN,
    EPOCH,
    ERROR_CODE,
    INT32,
    LONG,
    NUMBER,
    integer,
    listed,
    mapped,
    optional,
    record,
    text,
)
from cluster.protocol.peer.packed_body import PackedBody, list_of, named

MEMBERS_MAX: Final = 1_000
"""The members of a larger group are shown in part."""
_TEXT: Final = text(40_000)
_MANY: Final = 1_000_000
_NUMBER_OR_NOT: Final = optional(NUMBER)
_MILLISECONDS: Final = integer(-(2**62), 2**62)


@dataclass(frozen=True, slots=True)
class ExplainedMember:
    """The current state of a member."""

    who: WhoseMember
    session_timeout_ms: int
    rebalance_timeout_ms: int
    quiet_ms: int | None
    """Time since its last request; None if a request of it waits here, or if it is not known."""
    has_joined: bool
    """Its JoinGroup waits for the others; in the newer protocol, it has reached the newest epoch.
    """
    has_synced: bool
    """It has received or asked for its assignment; in the newer protocol, it has its target
    assignment."""
    assigned: tuple[TopicPartitions, ...] | None
    """None if the assignment is not a consumer's."""
    epoch: int | None = None
    """Only in the newer consumer protocol, like the fields below."""
    revoking: tuple[TopicPartitions, ...] = ()
    """Partitions that the member was told to revoke."""
    revoke_left_ms: int | None = None
    """The remaining time to revoke them."""


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """The current state of a group."""

    group_type: str
    """`classic` or `consumer`, as in ListGroups."""
    state: str
    protocol_type: str
    protocol_name: str
    generation_id: int
    """In the newer protocol, the group's epoch."""
    leader: WhoseMember | None
    members: tuple[ExplainedMember, ...]
    members_left_off: int
    state_times_ms: dict[str, int]
    """Since this broker loaded or created the group."""
    in_state_ms: int
    waits_at_most_ms: int | None
    """The remaining time of the current phase of a rebalance; None if none is running."""
    rebalances: tuple[Rebalance, ...]
    """Oldest first; a running one last."""
    assignment_epoch: int | None = None
    """The epoch of the target assignment; only in the newer consumer protocol."""


@dataclass(frozen=True, slots=True)
class FormerCoordinator:
    """The rebalances that a former coordinator of the group led."""

    broker: int
    since_wall_ms: int
    until_wall_ms: int
    rebalances: tuple[Rebalance, ...]


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """The rebalances of a group that one coordinator sends to the next."""

    group_id: str
    coordinators: tuple[FormerCoordinator, ...]


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """The answer of one broker about one group."""

    code: ErrorCode
    """GROUP_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS: `group` is None."""
    broker: int
    now_ms: int
    """By the monotonic clock that also times the starts of its rebalances."""
    now_wall_ms: int
    since_wall_ms: int
    """When the broker had loaded the group's partition; -1 unless it is the coordinator."""
    group: GroupExplanation | None
    former: tuple[FormerCoordinator, ...]


_CAUSE_KIND: Final = named(CauseKind, "the name of a cause")
_WHO: Final = record(
    WhoseMember,
    member_id=_TEXT,
    client_id=_TEXT,
    client_host=_TEXT,
    group_instance_id=optional(_TEXT),
)
_CAUSE: Final = record(
    Cause,
    kind=_CAUSE_KIND,
    member=optional(_WHO),
    timeout_ms=_NUMBER_OR_NOT,
    detail=_TEXT,
    after_ms=LONG,
)
_SLOW: Final = record(
    SlowMember, member=_WHO, waited_ms=LONG, has_joined=BOOLEAN, is_expected=BOOLEAN
)
_REBALANCE: Final = record(
    Rebalance,
    started_ms=_MILLISECONDS,
    started_wall_ms=_MILLISECONDS,
    from_generation=NUMBER,
    members_before=NUMBER,
    initial_delay_ms=LONG,
    causes=list_of(_CAUSE, _MANY),
    causes_left_off=NUMBER,
    joining_ms=optional(LONG),
    assigning_ms=optional(LONG),
    generation_id=_NUMBER_OR_NOT,
    members_after=_NUMBER_OR_NOT,
    leader=optional(_WHO),
    protocol_name=optional(_TEXT),
    rebalance_timeout_ms=INT32,
    slowest=list_of(_SLOW, _MANY),
    is_over=BOOLEAN,
    is_abandoned=BOOLEAN,
)
_TOPIC: Final = record(TopicPartitions, topic=_TEXT, partitions=listed(INT32, _MANY))
_MEMBER: Final = record(
    ExplainedMember,
    who=_WHO,
    session_timeout_ms=INT32,
    rebalance_timeout_ms=INT32,
    quiet_ms=optional(LONG),
    has_joined=BOOLEAN,
    has_synced=BOOLEAN,
    assigned=optional(listed(_TOPIC, _MANY)),
    epoch=optional(INT32),
    revoking=listed(_TOPIC, _MANY),
    revoke_left_ms=optional(LONG),
)
_GROUP: Final = record(
    GroupExplanation,
    group_type=_TEXT,
    state=_TEXT,
    protocol_type=_TEXT,
    protocol_name=_TEXT,
    generation_id=EPOCH,
    leader=optional(_WHO),
    members=listed(_MEMBER, MEMBERS_MAX),
    members_left_off=NUMBER,
    state_times_ms=mapped(_TEXT, LONG, 100),
    in_state_ms=LONG,
    waits_at_most_ms=optional(LONG),
    rebalances=listed(_REBALANCE, _MANY),
    assignment_epoch=optional(INT32),
)
_FORMER: Final = record(
    FormerCoordinator,
    broker=INT32,
    since_wall_ms=_MILLISECONDS,
    until_wall_ms=_MILLISECONDS,
    rebalances=listed(_REBALANCE, _MANY),
)
_KEPT: Final = record(KeptHistory, group_id=_TEXT, coordinators=listed(_FORMER, _MANY))
_ANSWER: Final = record(
    ExplainAnswer,
    code=ERROR_CODE,
    broker=INT32,
    now_ms=_MILLISECONDS,
    now_wall_ms=_MILLISECONDS,
    since_wall_ms=_MILLISECONDS,
    group=optional(_GROUP),
    former=listed(_FORMER, _MANY),
)
_question: Final = PackedBody[str](_TEXT)
_answer: Final = PackedBody[ExplainAnswer](_ANSWER)
_kept: Final = PackedBody[KeptHistory](_KEPT)

pack_question: Final = _question.pack
"""Encode the body of a request: the group id."""
read_question: Final = _question.read
"""Decode a request. Raises PeerError."""
pack_answer: Final = _answer.pack
"""Encode the body of an answer."""
read_answer: Final = _answer.read
"""Decode an answer. Raises PeerError, which names the malformed field."""
pack_kept: Final = _kept.pack
"""Encode the history of one group for another broker."""
read_kept: Final = _kept.read
"""Decode the history of one group. Raises PeerError, which names the malformed field."""
