"""Which logs of a starting broker may lack committed records. Pure."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from cluster.model.ids import NO_EPOCH, LeaderEpoch, Offset, TopicPartition


class LogEnd(NamedTuple):
    """The end of a log."""

    last_epoch: LeaderEpoch
    """The leader epoch of the last record, -1 without records."""
    offset: Offset
    topic_id: uuid.UUID = uuid.UUID(int=0)
    """The topic of the records: an earlier topic may have had the same name.

    Zero if unknown, as in a log of a Kafka before 2.8."""

    def is_of(self, topic_id: uuid.UUID) -> bool:
        """Whether it may be a log of that topic."""
        return self.topic_id == topic_id or not self.topic_id.int


_NOTHING: Final = LogEnd(NO_EPOCH, Offset(0))


@dataclass(frozen=True, slots=True)
class LogCondition:
    """The state of a broker's log directories at its start.

    A log that is neither missing nor doubtful has everything that it had when the broker stopped.
    """

    held: frozenset[TopicPartition] | None = None
    """The existing logs; None if all expected logs exist."""
    missing: frozenset[TopicPartition] = frozenset()
    """Missing logs that are known to have held records."""
    is_directory_lost: bool = False
    """Whether every log that does not exist counts as missing."""
    doubtful: Mapping[TopicPartition, LogEnd] = field(default_factory=dict)
    """Logs that may end earlier than before, and their ends."""

    @property
    def is_known_to_lack(self) -> bool:
        """Whether the broker knows that some logs have lost records."""
        return bool(self.missing or self.is_directory_lost or self.doubtful)

    def lacks(self, partition: TopicPartition) -> bool:
        """Whether the partition's log is missing."""
        return partition in self.missing or (
            self.is_directory_lost and self.held is not None and partition not in self.held
        )

    def holds(self, partition: TopicPartition, topic_id: uuid.UUID) -> bool:
        """Whether there is a log, as far as is known, of that topic."""
        end = self.doubtful.get(partition)
        is_there = end is not None or (self.held is not None and partition in self.held)
        return is_there and not self.lacks(partition) and (end is None or end.is_of(topic_id))

    def doubtful_end(self, partition: TopicPartition, topic_id: uuid.UUID) -> LogEnd | None:
        """The end of a log that may have ended later; None for an intact one.

        A log that does not exist may never have been created, if its broker stopped before.
        """
        if self.held is not None and partition not in self.held:
            return _NOTHING
        end = self.doubtful.get(partition)
        return end if end is None or end.is_of(topic_id) else _NOTHING

    def without_doubt(self, partitions: Collection[TopicPartition]) -> "LogCondition":
        """The same condition, once the logs of these partitions are known to be complete."""
        return replace(
            self,
            held=None if self.held is None else self.held.union(partitions),
            missing=self.missing.difference(partitions),
            doubtful={name: end for name, end in self.doubtful.items() if name not in partitions},
        )


INTACT: Final = LogCondition()
