"""What must hold after every event, and at the end of a simulation."""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from cluster.brokers.replication.partition import Partition
from cluster.coordinator.registry.documents import paths, znodes
from cluster.coordinator.registry.documents.znodes import PartitionStateRecord
from cluster.log.damage import DamagedBatch
from cluster.model.ids import Offset, TopicPartition
from cluster.records.batch import batches_of, read_header
from cluster.records.reader import read_records

if TYPE_CHECKING:
    from tests.simulation.broker import SimulatedBroker
    from tests.simulation.cluster import SimulatedCluster


class Replicated(NamedTuple):
    """A partition identified by topic id, since a deleted topic's name may be used again."""

    topic_id: uuid.UUID
    number: int


class Acked(NamedTuple):
    """A record that was acknowledged to a producer with acks=all."""

    partition: Replicated
    offset: int
    value: bytes


class Deleted(NamedTuple):
    """Records before an offset, of which a client was told that they are deleted."""

    partition: Replicated
    offset: int
    lives: dict[int, int]
    """The brokers that counted as live then, each with its life."""


class Checks:
    """Checks invariants, partly by comparing states with earlier ones.

    - One broker leads a partition in one leader epoch.
    - A leader's high watermark never falls within its epoch and life, and never passes its own log
      end nor that of a member of the in-sync set in the registry.
    - Whatever lies below any replica's high watermark is the same bytes everywhere, for ever.
    - A log start never passes the high watermark. Deleted records stay deleted, whoever leads; only
      a broker that crashed may have forgotten it, as in Kafka.
    - At the end every record that was acknowledged to a producer with acks=all is there.
    - What an idempotent producer sent is there once and in order.
    """

    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster
        self._leaders: dict[tuple[Replicated, int], int] = {}
        self._high_watermarks: dict[tuple[Replicated, int, int], int] = {}
        self._seen: dict[tuple[int, int, Replicated], int] = {}
        """High watermark at the last check, by broker, life and partition."""
        self._unchanged: dict[int, dict[TopicPartition, tuple[object, ...]]] = {}
        """By broker: all that the checks of a replica depend on, as it was at the last one."""
        self._committed: dict[Replicated, dict[int, bytes]] = {}
        self._committed_end: dict[Replicated, int] = {}
        self.acked: list[Acked] = []
        self.deleted: list[Deleted] = []
        self.members_may_lack_records = False
        """Set when a broker lost unflushed records while the registry counts it as in sync."""

    def after_event(self) -> None:
        """Check the replicas that the event has changed; most events change one or none."""
        for broker in self._cluster.brokers.values():
            if broker.node.is_alive:
                unchanged = self._unchanged.setdefault(broker.id, {})
                for partition in broker.table:
                    depends_on = (
                        broker.node.life,
                        partition.topic_id,
                        partition.leader is not None,
                        partition.leader_epoch,
                        partition.high_watermark,
                        partition.log.log_start_offset,
                        len(self.deleted),
                    )
                    if unchanged.get(partition.id) == depends_on:
                        continue
                    if partition.topic_id.int:  # else it was lost, and comes with the first update
                        self._look_at(broker, partition)
                    unchanged[partition.id] = depends_on

    def _look_at(self, broker: "SimulatedBroker", partition: Partition) -> None:
        high_watermark = partition.high_watermark
        key = (int(broker.id), broker.node.life, replicated(partition))
        before = self._seen.get(key)
        assert partition.log.log_start_offset <= high_watermark, (
            f"{partition.id}: log start {partition.log.log_start_offset} above {high_watermark}"
        )
        if partition.leader is not None:
            self._look_at_leader(broker, partition, high_watermark, before)
        if high_watermark != before:
            self._seen[key] = high_watermark
            assert high_watermark <= partition.log.log_end_offset
            self._check_committed(partition, Offset(before or 0), high_watermark)

    def _look_at_leader(
        self,
        broker: "SimulatedBroker",
        partition: Partition,
        high_watermark: int,
        before: int | None,
    ) -> None:
        epoch = (replicated(partition), int(partition.leader_epoch))
        leader = self._leaders.setdefault(epoch, broker.id)
        assert leader == broker.id, f"{leader} and {broker.id} lead {partition.id} in {epoch[1]}"
        for deleted in self.deleted:
            if deleted.partition == epoch[0] and (
                deleted.lives.get(int(broker.id)) == broker.node.life
            ):
                assert partition.log.log_start_offset >= deleted.offset, (
                    f"{partition.id}: broker {broker.id} leads from"
                    f" {partition.log.log_start_offset} on, but {deleted.offset} was the log start"
                )
        life = (*epoch, broker.node.life)  # it begins with its checkpoint again
        known = self._high_watermarks.get(life, 0)
        assert high_watermark >= known, (
            f"{partition.id}: high watermark of epoch {epoch[1]} fell {known} -> {high_watermark}"
        )
        self._high_watermarks[life] = high_watermark
        if high_watermark == before or self.members_may_lack_records:
            return
        state = self._cluster.registered_state(partition.id)
        if (
            state is None
            or state.leader_epoch != partition.leader_epoch
            or self._cluster.topic_id(partition.id.topic) != partition.topic_id
        ):
            return
        for member in state.isr:
            table = self._cluster.brokers[member].table
            if table.offline.find(partition.id) is not None:
                continue  # what it has acknowledged is on a disk that cannot be read now
            replica = table.find(partition.id)
            end = 0 if replica is None else replica.log.log_end_offset
            assert high_watermark <= end, (
                f"{partition.id}: high watermark {high_watermark} of broker {broker.id}, but broker"
                f" {member} of the ISR {list(state.isr)} has only {end}"
            )

    def _check_committed(self, partition: Partition, first: Offset, end: Offset) -> None:
        key = replicated(partition)
        committed = self._committed.setdefault(key, {})
        if partition.id.topic in self._cluster.compacted:
            for _, _, batch in batches_between(partition, first, end):
                for record in read_records(memoryview(batch)):
                    content = b"%r %r" % (record.key, record.value)
                    known = committed.setdefault(record.offset, content)
                    assert known == content, f"{partition.id}: another record at {record.offset}"
            return
        for base_offset, last_offset, batch in batches_between(partition, first, end):
            known = committed.get(base_offset)
            if known is None:
                follows = self._committed_end.get(key, 0)
                # What was committed and deleted in one event was never seen.
                is_first = follows < base_offset <= partition.log.log_start_offset
                assert base_offset == follows or is_first, (
                    f"{partition.id}: offset {base_offset} was committed with other batches before"
                )
                committed[base_offset] = batch
                self._committed_end[key] = last_offset + 1
            else:
                assert known == batch, f"{partition.id}: another batch at offset {base_offset}"

    # At the end

    def everything_is_in_sync(self) -> bool:
        """All replicas are in every ISR, have everything, and know that it is committed."""
        cluster = self._cluster
        for partition_id, replicas in cluster.assignment.items():
            state = cluster.registered_state(partition_id)
            if state is None or set(state.isr) != set(replicas) or state.leader < 0:
                return False
            leader = cluster.brokers[state.leader].table.find(partition_id)
            if leader is None or leader.leader is None:
                return False
            end = leader.log.log_end_offset
            for number in replicas:
                replica = cluster.brokers[number].table.find(partition_id)
                if replica is None or replica.log.log_end_offset != end:
                    return False
                if replica.high_watermark != end or replica.leader_epoch != state.leader_epoch:
                    return False
        return True

    def preferred_replicas_lead(self) -> bool:
        """Whether everything is in sync, and led by the first replica of its assignment."""
        return self.everything_is_in_sync() and all(
            self._cluster.leader(partition) == replicas[0]
            for partition, replicas in self._cluster.assignment.items()
        )

    def at_the_end(self) -> None:
        cluster = self._cluster
        for partition_id, replicas in cluster.assignment.items():
            found = [cluster.brokers[number].table.find(partition_id) for number in replicas]
            # Each deletes old segments by itself.
            first = max(one.log.log_start_offset for one in found if one is not None)
            contents = {
                number: _content_from(first, one, partition_id.topic in cluster.compacted)
                for number, one in zip(replicas, found, strict=True)
            }
            assert len(set(contents.values())) == 1, f"{partition_id}: replicas differ"
        for partition_id in cluster.assignment:
            state = cluster.registered_state(partition_id)
            assert state is not None
            leader = cluster.brokers[state.leader].table.find(partition_id)
            assert leader is not None
            if partition_id.topic not in cluster.compacted:
                self._check_records(leader)

    def _check_records(self, leader: Partition) -> None:
        values: dict[int, bytes] = {}
        sequences: dict[tuple[int, int], int] = {}
        start = leader.log.log_start_offset
        for _, _, batch in batches_between(leader, start, leader.log.log_end_offset):
            header = read_header(memoryview(batch))
            if header.producer_id >= 0 and not header.is_control:
                producer = header.producer_id, header.producer_epoch
                begin = -1 if start == 0 else header.base_sequence - 1
                expected = sequences.get(producer, begin) + 1
                assert header.base_sequence == expected, (
                    f"{leader.id}: producer {producer} sequence {header.base_sequence}"
                    f" where {expected} comes next"
                )
                sequences[producer] = header.base_sequence + header.last_offset_delta
            for record in read_records(memoryview(batch)):
                values[record.offset] = bytes(record.value or b"")
        for acked in self.acked:
            if acked.partition == replicated(leader) and acked.offset >= start:
                assert values.get(acked.offset) == acked.value, (
                    f"{leader.id}: the acknowledged record {acked.value!r} at {acked.offset}"
                    f" is {values.get(acked.offset)!r}"
                )


def replicated(partition: Partition) -> Replicated:
    return Replicated(partition.topic_id, partition.id.partition)


def batches_between(
    partition: Partition, first: Offset, end: Offset
) -> Iterator[tuple[int, int, bytes]]:
    """(base offset, last offset, bytes) of the batches of a replica in [first, end); without those
    that are damaged and not repaired yet."""
    offset = max(first, partition.log.log_start_offset)
    while offset < end:
        try:
            part = partition.log.read(offset, 1 << 20, upper_offset=end, at_least_one_batch=True)
        except DamagedBatch:
            offset = Offset(offset + 1)
            continue
        for header, batch in batches_of(part.view()):
            yield header.base_offset, header.last_offset, bytes(batch)
        assert part.next_offset > offset
        offset = part.next_offset


def _content_from(first: Offset, partition: Partition | None, is_compacted: bool) -> bytes:
    """The bytes of a log; of a compacted one the newest record of each key, without tombstones:
    each replica is compacted by itself."""
    assert partition is not None
    batches = batches_between(partition, first, partition.log.log_end_offset)
    content = b"".join(batch for _, _, batch in batches)
    if not is_compacted:
        return content
    newest = {record.key: record for record in read_records(memoryview(content))}
    return b"\n".join(
        b"%d %r %r" % (record.offset, key, record.value)
        for key, record in sorted(newest.items())
        if record.value is not None
    )


def decode_state(document: bytes) -> PartitionStateRecord:
    return znodes.decode_partition_state(document)


def state_path(partition: TopicPartition) -> str:
    return paths.partition_state(partition)
