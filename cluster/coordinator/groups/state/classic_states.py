"""The states of a classic group, and what each state makes of every event: one table. Pure.

Kafka: `ClassicGroupState`, and the `switch` of each request in `GroupMetadataManager`.

    Empty               no members; maybe committed offsets
    PreparingRebalance  members join; the generation is still the old one
    CompletingRebalance members have joined; the leader's assignment is awaited and stored
    Stable              members have their assignments
    Dead                no group: one that is not known, or was removed
"""

from enum import Enum
from typing import Final, NamedTuple

from cluster.model.error_codes import ErrorCode


class GroupState(Enum):
    """By the names that DescribeGroups and ListGroups have."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Rejoin(Enum):
    """What a JoinGroup of a member that the group has does."""

    WAIT = "it waits with the others until all have joined"
    ANSWER_IF_SAME = "the current generation is its answer if it brings what it brought before"
    ANSWER_FOLLOWER_IF_SAME = "the same, but of the leader it always begins a rebalance"
    UNKNOWN_MEMBER = "UNKNOWN_MEMBER_ID"


class Replace(Enum):
    """What it does when a static member comes back with a new member id."""

    STORE = "it takes the old one's place, which is stored, unless the protocol would change"
    REBALANCE = "a rebalance begins: the leader may have assigned to the old member id"
    WAIT = "it waits with the others"
    IMPOSSIBLE = "there are no members"


class Sync(Enum):
    """What a SyncGroup of a member of the current generation does."""

    WAIT = "it waits for the leader's assignment; that of the leader is stored"
    ANSWER = "the assignment is its answer"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    UNKNOWN_MEMBER = "UNKNOWN_MEMBER_ID"


class MemberGone(Enum):
    """What it does when a member left or timed out."""

    REBALANCE = "a rebalance begins"
    JOIN_MAY_BE_COMPLETE = "perhaps it was the one that the others waited for"
    NOTHING = "nothing"


class Rules(NamedTuple):
    """One row: what a group in this state does. Errors are for members of the current generation;
    what is checked before the state (fencing, member id, generation) is in `classic_group.py`."""

    comes_from: frozenset[GroupState]
    rejoin: Rejoin
    replace: Replace
    sync: Sync
    heartbeat: ErrorCode
    heartbeat_counts: bool
    """Whether a heartbeat begins the member's session timeout again."""
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
        commit=ErrorCode.none,  # of those who are in no group; there are no members
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
        commit=ErrorCode.none,  # so that members commit before they join again
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
