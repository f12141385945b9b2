"""The topics of a group of the newer consumer protocol, and its target assignment. Pure.

Kafka: `TargetAssignmentBuilder`, `ModernGroup.computeMetadataHash`, `refreshRegularExpressions`.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache

from cluster.coordinator.groups.assignors import ASSIGNORS
from cluster.coordinator.groups.assignors.subscription import MemberSubscription
from cluster.coordinator.groups.consumer.journal import Journal
from cluster.coordinator.groups.consumer.topic_expressions import (
    InvalidExpression,
    compile_expression,
)
from cluster.coordinator.groups.shared.topics import TopicId, Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.coordinator.groups.state.consumer_values import NO_PARTITIONS

log = logging.getLogger(__name__)


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A hash of the ids and partition counts of these topics; 0 if none of them exists.

    Kafka uses XXH3 over these and the racks of replicas. A broker that loads the other's hash
    computes one new assignment, which equals the one before.
    """
    digest = hashlib.blake2b(digest_size=8)
    is_empty = True
    for name in sorted(names):
        shape = topics.shape(name)
        if shape is not None:
            is_empty = False
            digest.update(shape.topic_id.bytes)
            digest.update(shape.partition_count.to_bytes(4))
    return 0 if is_empty else int.from_bytes(digest.digest(), signed=True) or 1


def resolve(text: str, topics: Topics) -> frozenset[str]:
    """The topics that match an expression; none if the expression is invalid, as one stored by
    another broker may be."""
    matches = _matcher(text)
    return frozenset(name for name in topics.names() if matches(name))


def resolve_again(
    text: str, before: frozenset[str], changed: Collection[str], topics: Topics
) -> frozenset[str]:
    """The topics that match an expression, if only these names may have changed since."""
    matches = _matcher(text)
    there = {name for name in changed if topics.shape(name) is not None and matches(name)}
    return before.difference(changed) | there


@lru_cache(maxsize=32)
def _matcher(text: str) -> Callable[[str], bool]:
    try:
        return compile_expression(text).matches
    except InvalidExpression as problem:
        log.warning("Ignored the invalid regular expression '%s': %s", text, problem)
        return lambda _: False


def assign_targets(journal: Journal, assignor: str, topics: Topics) -> None:
    """Compute the target assignment of the group's epoch, and journal the differences.

    Exceptions of the assignor are passed on.
    """
    group = journal.group
    counts: dict[TopicId, int] = {}
    ids: dict[str, TopicId] = {}
    for name in group.subscriptions.topics():
        shape = topics.shape(name)
        if shape is not None:
            ids[name] = shape.topic_id
            counts[shape.topic_id] = shape.partition_count
    members = _subscriptions(group, ids)
    found = ASSIGNORS[assignor](members, counts)
    for member_id in members:
        target = found.get(member_id, NO_PARTITIONS)
        if group.target.get(member_id) != target:
            journal.target(member_id, target)
    journal.assignment_epoch(group.epoch.epoch)


def _subscriptions(group: ConsumerGroup, ids: dict[str, TopicId]) -> dict[str, MemberSubscription]:
    topic_sets: dict[frozenset[str], frozenset[TopicId]] = {}
    members = {}
    for member_id, member in group.members.items():
        metadata = member.metadata
        names = group.subscriptions.topics_of(metadata)
        topic_ids = topic_sets.get(names)
        if topic_ids is None:
            topic_ids = frozenset(ids[name] for name in names if name in ids)
            topic_sets[names] = topic_ids
        members[member_id] = MemberSubscription(
            metadata.instance_id,
            metadata.rack_id,
            topic_ids,
            group.target.get(member_id, NO_PARTITIONS),
        )
    return members
