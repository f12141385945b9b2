"""A group of the newer consumer protocol as ConsumerGroupDescribe describes it. Pure.

Kafka: `ConsumerGroup.asDescribedGroup`, `asConsumerGroupDescribeMember`.
"""

from cluster.coordinator.groups.consumer.requests import (
    AssignedTopic,
    ConsumerGroupDescription,
    DescribedConsumer,
)
from cluster.coordinator.groups.shared.topics import Partitions, Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.state.consumer_values import NO_PARTITIONS


def described(
    group: ConsumerGroup, default_assignor: str, topics: Topics
) -> ConsumerGroupDescription:
    """The group in memory, including changes whose append is pending."""
    return ConsumerGroupDescription(
        group.group_id,
        group.state().value,
        group.epoch.epoch,
        group.assignment_epoch,
        group.assignor(default_assignor),
        tuple(_member(group, each, topics) for each in group.members.values()),
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> DescribedConsumer:
    metadata, current = member.metadata, member.current
    return DescribedConsumer(
        member.member_id,
        metadata.instance_id,
        metadata.rack_id,
        current.member_epoch,
        metadata.client_id,
        metadata.client_host,
        tuple(sorted(metadata.subscribed_topic_names)),
        metadata.subscribed_topic_regex,
        _named(current.assigned, topics),
        _named(group.target.get(member.member_id, NO_PARTITIONS), topics),
        metadata.classic is not None,
    )


def _named(partitions: Partitions, topics: Topics) -> tuple[AssignedTopic, ...]:
    """Partitions by topic name, without deleted topics, as in Kafka."""
    named = [
        AssignedTopic(topic_id, name, tuple(sorted(numbers)))
        for topic_id, numbers in partitions.items()
        if (name := topics.name(topic_id)) is not None
    ]
    return tuple(sorted(named, key=lambda each: each.topic))
