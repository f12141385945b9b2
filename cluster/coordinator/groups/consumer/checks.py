"""Checks of ConsumerGroupHeartbeat requests, with Kafka's errors and messages. Pure.

Kafka: `throwIfConsumerGroupHeartbeatRequestIsInvalid`, `throwIfConsumerGroupMemberEpochIsInvalid`.
"""

from collections.abc import Collection

from cluster.coordinator.groups.consumer.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeat,
)
from cluster.coordinator.groups.shared.topics import Partitions
from cluster.coordinator.groups.state.consumer_group import ConsumerMember
from cluster.coordinator.shards.record_text import TEXT_MAX_BYTES, is_storable
from cluster.model.error_codes import ErrorCode


class Refusal(Exception):
    """The request is refused, and has changed nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_request(request: ConsumerHeartbeat, assignors: Collection[str]) -> None:
    """Check what does not depend on the group. Raises Refusal."""
    epoch = request.member_epoch
    if not request.member_id.strip() and (
        request.requires_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    ):
        raise _invalid("MemberId can't be empty.")
    for value, name in (
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    _check_size(request)
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise Refusal(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {assignor} is not supported. Supported assignors: "
            + ", ".join(assignors)
            + ".",
        )


def _check_size(request: ConsumerHeartbeat) -> None:
    """Check that records can hold the texts. Kafka notices when it writes them."""
    for value, name in (
        (request.group_id, "GroupId"),
        (request.member_id, "MemberId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
        (request.client_id, "ClientId"),
        (request.subscribed_topic_regex, "SubscribedTopicRegex"),
        *((topic, "A topic name") for topic in request.subscribed_topic_names or ()),
    ):
        if value is not None and not is_storable(value):
            raise _invalid(f"{name} has more than {TEXT_MAX_BYTES} bytes.")


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.owned_partitions is None or request.owned_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
            " (re-)joining."
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """Check the epoch that the member sends. Raises Refusal.

    The previous epoch is accepted if the member owns nothing but what it was assigned: the reply
    with the newer epoch may have been lost.
    """
    current = member.current
    if epoch == current.member_epoch:
        return
    if epoch == current.previous_epoch < current.member_epoch and _is_within(
        owned, current.assigned
    ):
        return
    relation = "greater" if epoch > current.member_epoch else "smaller"
    raise Refusal(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by"
        f" the group coordinator ({current.member_epoch}). The member must abandon all its"
        " partitions and rejoin.",
    )


def check_is_released(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    """Check that a static member has left, so that another may replace it. Raises Refusal."""
    if member.current.member_epoch != STATIC_LEAVE_EPOCH:
        raise Refusal(
            ErrorCode.unreleased_instance_id,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join"
            f" the group because the instance id is owned by {member.member_id} member.",
        )


def check_is_same(member: ConsumerMember | None, request: ConsumerHeartbeat) -> ConsumerMember:
    """Check that the static member of the request's instance id sent it. Raises Refusal."""
    if member is None:
        raise Refusal(ErrorCode.unknown_member_id, f"Instance id {request.instance_id} is unknown.")
    if member.member_id != request.member_id:
        raise Refusal(
            ErrorCode.fenced_instance_id,
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced"
            f" by member {member.member_id}.",
        )
    return member


def unknown_member(member_id: str, group_id: str) -> Refusal:
    """The refusal of a request whose member is not in the group."""
    return Refusal(
        ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group_id}."
    )


def _is_within(owned: Partitions | None, assigned: Partitions) -> bool:
    return owned is not None and all(
        numbers <= assigned.get(topic_id, frozenset()) for topic_id, numbers in owned.items()
    )


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)
