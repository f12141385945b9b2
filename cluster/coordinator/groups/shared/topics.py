"""The port through which the group coordinator looks up topics. Pure."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

TopicId = uuid.UUID

Partitions = Mapping[TopicId, frozenset[int]]
"""Partition numbers by topic; no set is empty."""


class TopicShape(NamedTuple):
    """The facts about a topic that assignors use."""

    topic_id: TopicId
    partition_count: int


class Topics(Protocol):
    """The current topics. The thread that drives the shard may ask at any time."""

    def shape(self, name: str) -> TopicShape | None:
        """Id and partition count of a topic; None if there is no such topic."""
        ...

    def name(self, topic_id: TopicId) -> str | None:
        """The name of a topic; None if there is no such topic."""
        ...

    def names(self) -> Iterable[str]:
        """All names, for expressions; includes internal topics, as in Kafka."""
        ...


class KnownTopics:
    """The topics that all of several clients may know of."""

    def __init__(self, topics: Topics, may_know: Sequence[Callable[[str], bool]]) -> None:
        self._topics = topics
        self._may_know = may_know

    def shape(self, name: str) -> TopicShape | None:
        """Implements `Topics`."""
        return self._topics.shape(name) if self._is_known(name) else None

    def name(self, topic_id: TopicId) -> str | None:
        """Implements `Topics`."""
        name = self._topics.name(topic_id)
        return name if name is not None and self._is_known(name) else None

    def names(self) -> Iterable[str]:
        """Implements `Topics`."""
        return filter(self._is_known, self._topics.names())

    def _is_known(self, name: str) -> bool:
        return all(may_know(name) for may_know in self._may_know)


class NoTopics:
    """A cluster without topics."""

    def shape(self, name: str) -> TopicShape | None:
        """Implements `Topics`."""
        del name
        return None

    def name(self, topic_id: TopicId) -> str | None:
        """Implements `Topics`."""
        del topic_id
        return None

    def names(self) -> Iterable[str]:
        """Implements `Topics`."""
        return ()
