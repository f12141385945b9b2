"""The committed and pending offsets of one group. Pure.

Kafka: the offset half of `GroupMetadata`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from cluster.coordinator.groups.shared.records import CommittedOffset

Partition = tuple[str, int]


class _InTransaction(NamedTuple):
    order: int
    committed: CommittedOffset


class GroupOffsets:
    """Committed offsets by topic and partition; changes come in the order of the log.

    A transactional commit takes effect when its transaction ends, unless a later record of the log
    has committed the partition.
    """

    __slots__ = ("_order", "_pending", "_transactional", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, CommittedOffset]] = {}
        """The committed offsets. Read only."""
        self._pending: dict[Partition, int] = {}
        """The number of pending appends that will commit or remove a partition's offset."""
        self._transactional: dict[int, dict[Partition, _InTransaction | None]] = {}
        """By producer; None where a later record of the log takes precedence."""
        self._order = 0
        """The number of the last transactional commit in the log."""

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset of a partition."""
        partitions = self.topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.topics.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def __len__(self) -> int:
        return sum(map(len, self.topics.values()))

    @property
    def is_unused(self) -> bool:
        """Whether nothing is committed and nothing is pending."""
        return not self.topics and not self._pending and not self._transactional

    def partitions(self) -> list[Partition]:
        """All partitions with a committed or pending offset."""
        keys = {(topic, partition) for topic, partition, _ in self}
        return sorted(keys | self._pending.keys())

    def set(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Apply a commit that is in the log."""
        self._put(topic, partition, committed)
        if self._transactional:
            self._supersede((topic, partition), before=self._order + 1)

    def remove(self, topic: str, partition: int) -> None:
        """Apply a tombstone that is in the log."""
        partitions = self.topics.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self.topics[topic]
        if self._transactional:
            self._supersede((topic, partition), before=self._order + 1)

    def forget(self) -> Iterator[None]:
        """Free the offsets, one topic in each step."""
        while self.topics:
            self.topics.popitem()
            yield

    # ------------------------------------------------------------------ on their way

    def begin(self, key: Partition) -> None:
        """A change of this partition is being appended."""
        self._pending[key] = self._pending.get(key, 0) + 1

    def end(self, key: Partition) -> None:
        """The outcome of the append is known."""
        left = self._pending[key] - 1
        if left:
            self._pending[key] = left
        else:
            del self._pending[key]

    def is_changing(self, key: Partition) -> bool:
        """Whether a commit is pending, or part of an open transaction."""
        return key in self._pending or any(key in each for each in self._transactional.values())

    def has_pending(self, key: Partition) -> bool:
        """Whether a commit is pending."""
        return key in self._pending

    # ------------------------------------------------------------------ transactions

    def set_transactional(
        self, producer_id: int, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        """Apply a commit that is in the log as part of a transaction."""
        self._order += 1
        commits = self._transactional.setdefault(producer_id, {})
        commits[topic, partition] = _InTransaction(self._order, committed)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or abort the offsets of a transaction whose marker is in the log."""
        for key, commit in self._transactional.pop(producer_id, {}).items():
            if is_commit and commit is not None:
                self._supersede(key, before=commit.order)
                self._put(*key, commit.committed)

    def _put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        partitions = self.topics.get(topic)
        if partitions is None:
            self.topics[topic] = {partition: committed}
        else:
            partitions[partition] = committed

    def _supersede(self, key: Partition, before: int) -> None:
        """Discard earlier transactional commits of this partition."""
        for commits in self._transactional.values():
            commit = commits.get(key)
            if commit is not None and commit.order < before:
                commits[key] = None
