"""Ends transactions in partitions that this broker leads. Kafka: `handleWriteTxnMarkersRequest`."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from cluster.brokers.groups.group_coordinator import GroupCoordinator
from cluster.brokers.replication.own_appends import AppendOutcome, OwnAppends
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.records.markers import EndMarker

OnWritten = Callable[[Mapping[TopicPartition, ErrorCode]], None]
_ANY_EPOCH: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


class MarkerWriter:
    """Owned by the broker's thread."""

    def __init__(self, appends: OwnAppends, groups: GroupCoordinator) -> None:
        self._appends = appends
        self._groups = groups

    def write(
        self,
        marker: EndMarker,
        partitions: Iterable[TopicPartition],
        on_written: OnWritten,
        leader_epochs: Mapping[TopicPartition, int] = _ANY_EPOCH,
    ) -> None:
        """Append the marker to each partition; `on_written` is called once, when it is committed in
        all of them or on error.

        FENCED_LEADER_EPOCH where this broker leads in another epoch than the given one.
        """
        writing = _Writing(on_written)
        for partition in partitions:
            writing.awaited += 1
            epoch = self._appends.leader_epoch(partition)
            if epoch is not None and leader_epochs.get(partition, epoch) != epoch:
                writing.set(partition, ErrorCode.fenced_leader_epoch)
            elif partition.topic == CONSUMER_OFFSETS_TOPIC:
                self._end_in_group(marker, partition, writing)
            else:
                self._appends.append_marker(partition, marker, writing.outcome_of(partition))
        writing.done()

    def _end_in_group(
        self, marker: EndMarker, partition: TopicPartition, writing: "_Writing"
    ) -> None:
        """The coordinator of the groups appends the marker after the offsets that it ends."""
        led = self._groups.led(partition)
        if led is None:
            writing.set(partition, ErrorCode.not_leader_or_follower)
        else:
            led.append_marker(marker, lambda code: writing.set(partition, code))


class _Writing:
    """The outcomes so far. `awaited` counts those that are missing, and one more while `write`
    runs."""

    def __init__(self, on_written: OnWritten) -> None:
        self._on_written = on_written
        self._codes: dict[TopicPartition, ErrorCode] = {}
        self.awaited = 1

    def outcome_of(self, partition: TopicPartition) -> Callable[[AppendOutcome], None]:
        return lambda outcome: self.set(partition, outcome.code)

    def set(self, partition: TopicPartition, code: ErrorCode) -> None:
        self._codes[partition] = code
        self.done()

    def done(self) -> None:
        self.awaited -= 1
        if not self.awaited:
            self._on_written(self._codes)
