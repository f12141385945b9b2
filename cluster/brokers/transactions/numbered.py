"""Sets of partitions as messages between brokers have them. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from cluster.model.ids import TopicPartition
from cluster.protocol.peer.control import NumberedPartitions


def numbered(partitions: Iterable[TopicPartition]) -> tuple[NumberedPartitions, ...]:
    """Partitions by topic, all in ascending order."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        topics[topic].append(number)
    return tuple(NumberedPartitions(topic, numbers) for topic, numbers in topics.items())


def partitions_in(topics: Sequence[NumberedPartitions]) -> list[TopicPartition]:
    """The partitions in the order of the message."""
    return [TopicPartition(topic, number) for topic, numbers in topics for number in numbers]
