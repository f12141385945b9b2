"""Moves a member from its current to its target assignment: revoke first, then assign. Pure.

KIP-848; Kafka: `CurrentAssignmentBuilder`.
"""

from collections.abc import Callable

from cluster.coordinator.groups.shared.topics import Partitions, TopicId
from cluster.coordinator.groups.state.consumer_values import (
    NO_PARTITIONS,
    CurrentAssignment,
    MemberState,
)


class UnknownState(Exception):
    """The stored state of the member is unknown here, and the member still has partitions."""


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicId, int], bool],
) -> CurrentAssignment:
    """The member's next step towards its target; the same object if no step is possible.

    `owned` are the partitions that the member reports, None if it does not report any; `is_free`
    says whether no member owns a partition. Raises UnknownState.
    """
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch == target_epoch:
                return current
            epoch = current.member_epoch
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(owned, current.revoking):
                return current
            epoch = current.member_epoch + 1
        case MemberState.UNRELEASED_PARTITIONS:
            epoch = current.member_epoch
        case MemberState.UNKNOWN:
            if owned is None or any(owned.values()):
                raise UnknownState
            epoch = target_epoch
    reached = _next(current, epoch, target_epoch, target, owned, is_free)
    return current if reached == current else reached


def _next(
    current: CurrentAssignment,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicId, int], bool],
) -> CurrentAssignment:
    assigned: dict[TopicId, frozenset[int]] = {}
    revoking: dict[TopicId, frozenset[int]] = {}
    added: dict[TopicId, frozenset[int]] = {}
    is_waiting = False
    for topic_id in {**target, **current.assigned}:
        wanted = target.get(topic_id, frozenset())
        held = current.assigned.get(topic_id, frozenset())
        missing = wanted - held
        free = frozenset(each for each in missing if is_free(topic_id, each))
        is_waiting = is_waiting or len(free) < len(missing)
        for kept, numbers in ((assigned, held & wanted), (revoking, held - wanted), (added, free)):
            if numbers:
                kept[topic_id] = numbers
    before = current.member_epoch
    if revoking and _still_owns(owned, revoking):
        return CurrentAssignment(
            epoch, before, MemberState.UNREVOKED_PARTITIONS, assigned, revoking
        )
    for topic_id, numbers in added.items():
        assigned[topic_id] = assigned.get(topic_id, frozenset()) | numbers
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return CurrentAssignment(target_epoch, before, state, assigned, NO_PARTITIONS)


def _still_owns(owned: Partitions | None, revoking: Partitions) -> bool:
    """Whether the member has not confirmed yet that it revoked these partitions."""
    if owned is None:
        return True
    return any(
        not numbers.isdisjoint(owned.get(topic_id, frozenset()))
        for topic_id, numbers in revoking.items()
    )
