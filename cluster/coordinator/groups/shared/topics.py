"""What the group coordinator asks about topics: a port. Pure."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

TopicId = uuid.UUID

Partitions = Mapping[TopicId, frozenset[int]]
"""Partition numbers by topic; no set is empty."""


class TopicShape(NamedTuple):
    """What of a topic decides how it is assigned."""

    topic_id: TopicId
    partition_count: int


class Topics(Protocol):
    """The topics that there are now. The thread that drives the shard may ask at any time."""

    def shape(self, name: str) -> TopicShape | None:
        """Id and number of partitions of a topic; None if there is none of this name."""
        ...

    def name(self, topic_id: TopicId) -> str | None:
        """The name of the topic with this id; None if there is none."""
        ...

    def names(self) -> Iterable[str]:
        """All names, for expressions; internal topics as well, as in Kafka."""
        ...


class KnownTopics:
    """The topics of which some clients may know, all of them."""

    def __init__(self, topics: Topics, may_know: Sequence[Callable[[str], bool]]) -> None:
        self._topics = topics
        self._may_know = may_know

    def shape(self, name: str) -> TopicShape | None:
        """See `Topics`."""
        return self._topics.shape(name) if self._is_known(name) else None

    def name(self, topic_id: TopicId) -> str | None:
        """See `Topics`."""
        name = self._topics.name(topic_id)
        return name if name is not None and self._is_known(name) else None

    def names(self) -> Iterable[str]:
        """See `Topics`."""
        return filter(self._is_known, self._topics.names())

    def _is_known(self, name: str) -> bool:
        return all(may_know(name) for may_know in self._may_know)


class NoTopics:
    """A cluster without topics."""

    def shape(self, name: str) -> TopicShape | None:
        """None."""
        del name
        return None

    def name(self, topic_id: TopicId) -> str | None:
        """None."""
        del topic_id
        return None

    def names(self) -> Iterable[str]:
        """Nothing."""
        return ()
