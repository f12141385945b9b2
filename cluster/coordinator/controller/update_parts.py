"""Divides an update of thousands of partitions, so that neither end is busy for long. Pure.

The parts of one update follow each other on one connection. The receiver applies the update as a
whole after its last part: a topic is never visible with some of its partitions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from cluster.model.cluster import TopicState
from cluster.protocol.peer.control import ClusterUpdate

PARTITIONS_PER_PART: Final = 100
"""Takes about half a millisecond to encode, and a whole one to decode."""


def parts_of(update: ClusterUpdate, size: int = PARTITIONS_PER_PART) -> Iterator[ClusterUpdate]:
    """The update in parts of at most `size` partitions; the update itself if it is small enough."""
    pieces = _pieces_of(update.topics, size)
    last = len(pieces) - 1
    for number, topics in enumerate(pieces):
        is_last = number == last
        part = replace(update, topics=tuple(topics), part=number, is_last=is_last)
        yield part if is_last else replace(part, offline=(), full=(), full_brokers=())


def _pieces_of(topics: Iterable[TopicState], size: int) -> list[list[TopicState]]:
    pieces: list[list[TopicState]] = [[]]
    room = size
    for topic in topics:
        rest = iter(topic.partitions.items())
        some = dict(islice(rest, room))
        while True:  # a topic without partitions needs a part too
            pieces[-1].append(replace(topic, partitions=some))
            room -= len(some) or 1
            if room <= 0:
                pieces.append([])
                room = size
            some = dict(islice(rest, room))
            if not some:
                break
    if len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return pieces


class UpdateParts:
    """The received parts of an incomplete update."""

    def __init__(self) -> None:
        self._parts: list[ClusterUpdate] = []

    def add(self, update: ClusterUpdate) -> ClusterUpdate | None:
        """The whole update if this is its last part; None for earlier parts, or if a part was
        lost."""
        if update.part == 0:
            self._parts = []
        if update.part != len(self._parts) or (
            self._parts and _sender_of(self._parts[0]) != _sender_of(update)
        ):
            self._parts = []
            return None
        self._parts.append(update)
        if not update.is_last:
            return None
        parts, self._parts = self._parts, []
        return update if len(parts) == 1 else _joined(parts)

    @property
    def is_incomplete(self) -> bool:
        """Whether parts have arrived and others are missing."""
        return bool(self._parts)


def _sender_of(update: ClusterUpdate) -> tuple[object, ...]:
    return update.controller, update.controller_epoch, update.broker_epoch, update.is_full


def _joined(parts: list[ClusterUpdate]) -> ClusterUpdate:
    topics: dict[str, TopicState] = {}
    for part in parts:
        for topic in part.topics:
            known = topics.get(topic.name)
            if known is None:
                topics[topic.name] = topic
            else:
                known.partitions.update(topic.partitions)
    return replace(parts[-1], topics=tuple(topics.values()), part=0)
