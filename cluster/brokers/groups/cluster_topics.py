"""The topics of the cluster, as the group coordinator needs them."""

from collections.abc import Iterable, Set
from typing import Final

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.coordinator.groups.shared.topics import TopicId, TopicShape
from cluster.protocol.peer.control import ClusterUpdate


class ClusterTopics:
    """Implements `Topics` by the metadata cache."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata: Final = metadata

    def shape(self, name: str) -> TopicShape | None:
        topic = self._metadata.topics.get(name)
        return None if topic is None else TopicShape(topic.topic_id, len(topic.partitions))

    def name(self, topic_id: TopicId) -> str | None:
        return self._metadata.topic_name(topic_id)

    def names(self) -> Iterable[str]:
        return self._metadata.topics

    def reshaped_by(self, update: ClusterUpdate) -> Set[str]:
        """The topics that an update creates, recreates, enlarges or deletes.

        Must be called before the update is applied to the metadata cache.
        """
        known = self._metadata.topics
        changed = set(update.deleted)
        for topic in update.topics:
            before = known.get(topic.name)
            if (
                before is None
                or before.topic_id != topic.topic_id
                or not topic.partitions.keys() <= before.partitions.keys()
            ):
                changed.add(topic.name)
        if update.is_full:
            changed |= known.keys() - {topic.name for topic in update.topics}
        return changed
