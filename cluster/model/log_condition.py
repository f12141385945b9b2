"""Which logs of a starting broker may lack records that were committed. Pure."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from cluster.model.ids import NO_EPOCH, LeaderEpoch, Offset, TopicPartition


class LogEnd(NamedTuple):
    """Where a log ends."""

    last_epoch: LeaderEpoch
    """Leader epoch of the last record, -1 if there is none."""
    offset: Offset
    topic_id: uuid.UUID = uuid.UUID(int=0)
    """Of the topic whose records these are: an earlier one may have had the name. Zero: unknown, as
    in a log of a Kafka before 2.8."""

    def is_of(self, topic_id: uuid.UUID) -> bool:
        """Whether it may be a log of that topic."""
        return self.topic_id == topic_id or not self.topic_id.int


_NOTHING: Final = LogEnd(NO_EPOCH, Offset(0))


@dataclass(frozen=True, slots=True)
class LogCondition:
    """What a broker found in its log directories when it started.

    A log that is neither missing nor doubtful has everything that it had when the broker stopped.
    """

    held: frozenset[TopicPartition] | None = None
    """The logs that are there; None: all that should be."""
    missing: frozenset[TopicPartition] = frozenset()
    """Logs that are not there, and are known to have held records."""
    is_directory_lost: bool = False
    """Every log that is not there is missing."""
    doubtful: Mapping[TopicPartition, LogEnd] = field(default_factory=dict)
    """Logs that may end earlier than they did, and where they end."""

    @property
    def is_known_to_lack(self) -> bool:
        """Whether the broker itself knows of logs that have lost something."""
        return bool(self.missing or self.is_directory_lost or self.doubtful)

    def lacks(self, partition: TopicPartition) -> bool:
        """Whether the partition's log is gone."""
        return partition in self.missing or (
            self.is_directory_lost and self.held is not None and partition not in self.held
        )

    def holds(self, partition: TopicPartition, topic_id: uuid.UUID) -> bool:
        """Whether there is a log, as far as is known of that topic."""
        end = self.doubtful.get(partition)
        is_there = end is not None or (self.held is not None and partition in self.held)
        return is_there and not self.lacks(partition) and (end is None or end.is_of(topic_id))

    def doubtful_end(self, partition: TopicPartition, topic_id: uuid.UUID) -> LogEnd | None:
        """Where a log ends that may have ended later; None for one that is as it was.

        A log that is not there may never have been made, as its broker stopped before.
        """
        if self.held is not None and partition not in self.held:
            return _NOTHING
        end = self.doubtful.get(partition)
        return end if end is None or end.is_of(topic_id) else _NOTHING

    def without_doubt(self, partitions: Collection[TopicPartition]) -> "LogCondition":
        """The same, now that the logs of these partitions are known to have everything."""
        return replace(
            self,
            held=None if self.held is None else self.held.union(partitions),
            missing=self.missing.difference(partitions),
            doubtful={name: end for name, end in self.doubtful.items() if name not in partitions},
        )


INTACT: Final = LogCondition()
