"""A change planned by the controller: for the registry, then its state, then the brokers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster.model.cluster import ClusterState, PartitionState, TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition


class Outcome(NamedTuple):
    """The result for one item of a request; `detail` is for a person."""

    code: ErrorCode
    detail: str | None = None


@dataclass(slots=True)
class Plan:
    """One atomic step of the controller.

    `changed` has the new states of existing partitions, each with the partition epoch that the
    conditional write will give it (the old one plus one).
    """

    created: list[TopicState] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    added: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    """Partitions added to existing topics."""
    changed: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    configured: dict[str, dict[str, str]] = field(default_factory=dict)
    """All overrides of existing topics whose configs change."""
    reread: set[str] = field(default_factory=set)
    """Existing topics whose configs somebody else may have changed in the registry."""
    moved: dict[TopicPartition, BrokerId] = field(default_factory=dict, compare=False)
    """The former leaders of partitions whose leader changes; filled when the plan is applied."""
    learned: dict[str, dict[str, str]] = field(default_factory=dict)
    """States in the registry that differ from the controller's; filled when the plan is carried
    out, and not written."""
    steps: Iterator[None] = field(default_factory=lambda: iter(()), compare=False)
    """Remaining planning in steps of well under a millisecond, each of which may add to `changed`.

    The plan is complete when they have ended; until then the state must not change."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to announce."""
        return not (
            self.created
            or self.deleted
            or self.added
            or self.changed
            or self.configured
            or self.reread
        )

    @property
    def partition_count(self) -> int:
        """The number of partitions whose state it changes."""
        created = sum(len(topic.partitions) for topic in self.created)
        return created + len(self.added) + len(self.changed)

    def apply(self, state: ClusterState) -> None:
        """Apply the plan to the state, after the registry has it."""
        for topic in self.created:
            state.put_topic(topic)
        for name in self.deleted:
            state.remove_topic(name)
        for name, configs in (self.configured | self.learned).items():
            if name in state.topics:
                state.topics[name].configs = configs
        for partition, new_state in self.changed.items():
            old_state = state.partition(partition)
            if old_state is not None and new_state.leader != old_state.leader:
                self.moved[partition] = old_state.leader
        for changes in (self.added, self.changed):
            for partition, new_state in changes.items():
                topic_state = state.topics.get(partition.topic)
                if topic_state is not None:
                    topic_state.partitions[partition.partition] = new_state

    def touched_topics(self, state: ClusterState) -> list[TopicState]:
        """The topics of an applied plan as they are sent to brokers.

        They contain only the partitions that changed, or all if the topic's configs changed, since
        each replica takes over the configs.
        """
        touched: dict[str, TopicState] = {topic.name: topic for topic in self.created}
        for name in (self.configured.keys() | self.learned.keys()) & state.topics.keys():
            topic = state.topics[name]
            touched[name] = TopicState(name, topic.topic_id, topic.configs, dict(topic.partitions))
        for changes in (self.added, self.changed):
            for partition, partition_state in changes.items():
                known = state.topics.get(partition.topic)
                if known is None:
                    continue
                part = touched.setdefault(
                    partition.topic, TopicState(known.name, known.topic_id, known.configs)
                )
                part.partitions[partition.partition] = partition_state
        return list(touched.values())
