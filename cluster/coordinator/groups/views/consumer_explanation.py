"""Explains a group of the newer consumer protocol for `groups explain`. Pure."""

from collections.abc import Iterator
from itertools import islice

from cluster.coordinator.groups.history.explanation import (
    MEMBERS_MAX,
    ExplainedMember,
    GroupExplanation,
)
from cluster.coordinator.groups.requests import TopicPartitions
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.shared.topics import Partitions, Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.views.rebalances import rebalances_of
from cluster.model.clocks import Moment, MonotonicMs


def explain_consumers(
    group: ConsumerGroup,
    assignor: str,
    session_timeout_ms: int,
    topics: Topics,
    now: Moment,
) -> GroupExplanation:
    """The current group and its last rebalances, oldest first.

    `assignor` is the default; `session_timeout_ms` is that of members of the newer protocol. Takes
    some microseconds for each member and rebalance.
    """
    members = tuple(_explained(group, session_timeout_ms, topics, now))
    return GroupExplanation(
        CONSUMER,
        group.state().value,
        CONSUMER,
        group.assignor(assignor),
        max(0, group.epoch.epoch),
        None,
        members,
        len(group.members) - len(members),
        group.times.by_state_ms(now),
        group.times.in_state_ms(now),
        _waits_at_most_ms(group, now),
        rebalances_of(group, now),
        group.assignment_epoch,
    )


def _explained(
    group: ConsumerGroup, session_timeout_ms: int, topics: Topics, now: Moment
) -> Iterator[ExplainedMember]:
    for member in islice(group.members.values(), MEMBERS_MAX):
        timeout_ms = member.session_ms(session_timeout_ms)
        yield ExplainedMember(
            member.who,
            timeout_ms,
            max(0, member.metadata.rebalance_timeout_ms),
            _quiet_ms(member, timeout_ms, now),
            group.has_reached_epoch(member),
            member.current.is_reconciled_to(group.epoch.epoch),
            _named(member.current.assigned, topics),
            member.current.member_epoch,
            _named(member.current.revoking, topics),
            _left_ms(member.rebalance.deadline_ms, now),
        )


def _quiet_ms(member: ConsumerMember, timeout_ms: int, now: Moment) -> int | None:
    """Computed from the session timeout, which every heartbeat restarts."""
    ends_ms = member.session.deadline_ms
    return None if ends_ms is None else max(0, timeout_ms - (ends_ms - now.monotonic_ms))


def _left_ms(deadline_ms: MonotonicMs | None, now: Moment) -> int | None:
    return None if deadline_ms is None else max(0, deadline_ms - now.monotonic_ms)


def _named(partitions: Partitions, topics: Topics) -> tuple[TopicPartitions, ...]:
    named = [
        TopicPartitions(name, tuple(sorted(numbers)))
        for topic_id, numbers in partitions.items()
        if (name := topics.name(topic_id)) is not None
    ]
    return tuple(sorted(named))


def _waits_at_most_ms(group: ConsumerGroup, now: Moment) -> int | None:
    """The time until the last member that has to revoke partitions is removed."""
    ends = [
        each.rebalance.deadline_ms
        for each in group.members.values()
        if each.rebalance.deadline_ms is not None
    ]
    return max(0, max(ends) - now.monotonic_ms) if ends else None
