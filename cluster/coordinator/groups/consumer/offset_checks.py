"""Who may commit and fetch the offsets of a group of the newer consumer protocol. Pure.

Kafka: `ConsumerGroup.validateOffsetCommit`, `validateOffsetFetch`, `validateMemberEpoch`.
"""

from cluster.coordinator.groups.requests import (
    NO_GENERATION,
    NO_MEMBER_ID,
    CommitOffsets,
    FetchOffsets,
    TransactionalCommit,
)
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.model.error_codes import ErrorCode


def check_commit(group: ConsumerGroup, request: CommitOffsets) -> ErrorCode:
    """Allow a member in its current epoch; if the group has no members, also a client without a
    group."""
    epoch = request.generation_id
    if epoch < 0 and not group.members:
        return ErrorCode.none
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if member.metadata.classic is None and not request.knows_member_epochs:
        return ErrorCode.unsupported_version
    return _check_epoch(member, epoch)


def check_transactional_commit(group: ConsumerGroup, request: TransactionalCommit) -> ErrorCode:
    """Allow the same, and always a producer that names no member."""
    epoch = request.generation_id
    if epoch < 0 and not group.members:
        return ErrorCode.none
    if (
        epoch == NO_GENERATION
        and request.member_id == NO_MEMBER_ID
        and request.group_instance_id is None
    ):
        return ErrorCode.none
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    error = _check_epoch(member, epoch)
    return ErrorCode.none if error is ErrorCode.none else ErrorCode.illegal_generation


def check_fetch(group: ConsumerGroup, request: FetchOffsets) -> ErrorCode:
    """Allow a member in its current epoch, and a client that names no member."""
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.none
    member = group.members.get(request.member_id or NO_MEMBER_ID)
    if member is None:
        return ErrorCode.unknown_member_id
    return _check_epoch(member, request.member_epoch)


def _check_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.current.member_epoch:
        return ErrorCode.none
    is_classic = member.metadata.classic is not None
    return ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch
