"""The states of a classic group, and the table of its behavior in each state. Pure.

Kafka: `ClassicGroupState`, and the `switch` of each request in `GroupMetadataManager`.

    Empty               no members; maybe committed offsets
    PreparingRebalance  members join; the generation is still the old one
    CompletingRebalance members have joined; the leader's assignment is awaited and stored
    Stable              members have their assignments
    Dead                the group was removed or does not exist
"""

from enum import Enum
from typing import Final, NamedTuple

from cluster.model.error_codes import ErrorCode


class GroupState(Enum):
    """Names as in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Rejoin(Enum):
    """What a JoinGroup of a known member does."""

    WAIT = "the member waits until all members have joined"
    ANSWER_IF_SAME = "the current generation is repeated if the member's metadata is unchanged"
    ANSWER_FOLLOWER_IF_SAME = "the same, but the leader always starts a rebalance"
    UNKNOWN_MEMBER = "UNKNOWN_MEMBER_ID"


class Replace(Enum):
    """What happens when a static member returns with a new member id."""

    STORE = "the new id is stored, unless the protocol would change"
    REBALANCE = "a rebalance starts: the leader may have used the old member id"
    WAIT = "the member waits until all members have joined"
    IMPOSSIBLE = "there are no members"


class Sync(Enum):
    """What a SyncGroup of a member of the current generation does."""

    WAIT = "the request waits for the leader's assignment; the leader's own stores it"
    ANSWER = "the reply has the assignment"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    UNKNOWN_MEMBER = "UNKNOWN_MEMBER_ID"


class MemberGone(Enum):
    """What happens when a member left or timed out."""

    REBALANCE = "a rebalance starts"
    JOIN_MAY_BE_COMPLETE = "the join phase is complete if the others have joined"
    NOTHING = "nothing"


class Rules(NamedTuple):
    """One row: the behavior in one state. Errors are for members of the current generation;
    `ClassicGroup` checks instance id, member id and generation before."""

    comes_from: frozenset[GroupState]
    rejoin: Rejoin
    replace: Replace
    sync: Sync
    heartbeat: ErrorCode
    heartbeat_counts: bool
    """Whether a heartbeat restarts the member's session timeout."""
    commit: ErrorCode
    member_gone: MemberGone
    may_rebalance: bool
    delete_group: ErrorCode


_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE
_DEAD = GroupState.DEAD

RULES: Final[dict[GroupState, Rules]] = {
    _EMPTY: Rules(
        comes_from=frozenset({_PREPARING}),
        rejoin=Rejoin.UNKNOWN_MEMBER,
        replace=Replace.IMPOSSIBLE,
        sync=Sync.UNKNOWN_MEMBER,
        heartbeat=ErrorCode.unknown_member_id,
        heartbeat_counts=False,
        commit=ErrorCode.none,  # for clients without a group; there are no members
        member_gone=MemberGone.NOTHING,
        may_rebalance=True,
        delete_group=ErrorCode.none,
    ),
    _PREPARING: Rules(
        comes_from=frozenset({_EMPTY, _COMPLETING, _STABLE}),
        rejoin=Rejoin.WAIT,
        replace=Replace.WAIT,
        sync=Sync.REBALANCE_IN_PROGRESS,
        heartbeat=ErrorCode.rebalance_in_progress,
        heartbeat_counts=True,
        commit=ErrorCode.none,  # members commit before they rejoin
        member_gone=MemberGone.JOIN_MAY_BE_COMPLETE,
        may_rebalance=False,
        delete_group=ErrorCode.non_empty_group,
    ),
    _COMPLETING: Rules(
        comes_from=frozenset({_PREPARING}),
        rejoin=Rejoin.ANSWER_IF_SAME,
        replace=Replace.REBALANCE,
        sync=Sync.WAIT,
        heartbeat=ErrorCode.none,
        heartbeat_counts=True,
        commit=ErrorCode.rebalance_in_progress,
        member_gone=MemberGone.REBALANCE,
        may_rebalance=True,
        delete_group=ErrorCode.non_empty_group,
    ),
    _STABLE: Rules(
        comes_from=frozenset({_COMPLETING}),
        rejoin=Rejoin.ANSWER_FOLLOWER_IF_SAME,
        replace=Replace.STORE,
        sync=Sync.ANSWER,
        heartbeat=ErrorCode.none,
        heartbeat_counts=True,
        commit=ErrorCode.none,
        member_gone=MemberGone.REBALANCE,
        may_rebalance=True,
        delete_group=ErrorCode.non_empty_group,
    ),
    _DEAD: Rules(
        comes_from=frozenset({_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD}),
        rejoin=Rejoin.UNKNOWN_MEMBER,
        replace=Replace.IMPOSSIBLE,
        sync=Sync.UNKNOWN_MEMBER,
        heartbeat=ErrorCode.unknown_member_id,
        heartbeat_counts=False,
        commit=ErrorCode.illegal_generation,
        member_gone=MemberGone.NOTHING,
        may_rebalance=False,
        delete_group=ErrorCode.group_id_not_found,
    ),
}
