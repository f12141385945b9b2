"""An idempotent producer: some batches in flight, sent again until they are acknowledged."""

from dataclasses import dataclass
from typing import Any

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.simulation.checks import Replicated
from tests.simulation.cluster import SimulatedCluster

RETRY_MS = 2_000
"""Above the timeout of a request and every delay, so that an attempt is over before the next."""


@dataclass
class _Batch:
    sequence: int
    values: list[bytes]


class IdempotentProducer:
    """Writes to one partition with acks=all.

    Whatever happens, its records are in the log once, in order, and without a gap.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        partition: TopicPartition,
        producer_id: int,
        in_flight_max: int,
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._producer_id = producer_id
        self._topic_id = cluster.topic_id(partition.topic)
        self._in_flight_max = in_flight_max
        self._sequence = 0
        self._in_flight: list[_Batch] = []
        """Those that are not acknowledged, in their order."""
        self._attempt = 0
        self._unanswered = 0
        self._sent_at_ms = 0

    def step(self) -> None:
        """Send the next batches, or the present ones again when it is time."""
        cluster = self._cluster
        now_ms = cluster.world.now_ms
        if self._unanswered and now_ms - self._sent_at_ms < RETRY_MS:
            return
        if cluster.topic_id(self._partition.topic) != self._topic_id:
            return  # the topic was deleted; a new one of that name is not ours
        leader = cluster.believed_leader(self._partition)
        if leader is None:
            return
        if not self._in_flight:
            for _ in range(self._in_flight_max):
                self._add_batch(cluster.random.choice([1, 2, 5]))
        self._attempt += 1
        self._unanswered = len(self._in_flight)
        self._sent_at_ms = now_ms
        delay_ms = cluster.world.delay_ms()  # they are sent by one connection
        for batch in self._in_flight:
            self._send(batch, leader, self._attempt, delay_ms)

    def _add_batch(self, count: int) -> None:
        numbers = range(self._sequence, self._sequence + count)
        values = [b"producer %d record %d" % (self._producer_id, number) for number in numbers]
        self._in_flight.append(_Batch(self._sequence, values))
        self._sequence += count

    def _send(self, batch: _Batch, leader: int, attempt: int, delay_ms: int) -> None:
        cluster = self._cluster
        records = build_batch(
            [NewRecord(value, None, cluster.world.wall_ms()) for value in batch.values],
            producer=ProducerIdentity(self._producer_id, 0, batch.sequence),
        )
        cluster.send(
            leader,
            self._partition,
            bytes(records),
            -1,
            lambda *answer: self._on_answer(batch, attempt, *answer),
            delay_ms,
        )

    def _on_answer(
        self,
        batch: _Batch,
        attempt: int,
        result: Any,
        written: Replicated,
        is_current_leader: bool,
    ) -> None:
        if attempt != self._attempt or written.topic_id != self._topic_id:
            return
        code = ErrorCode(result.error_code)
        self._unanswered -= 1
        # A leader of the past may not know the batches before this one, and one that is behind
        # others in flight may come before them.
        is_next = is_current_leader and batch is self._in_flight[0]
        assert not is_next or code not in (
            ErrorCode.out_of_order_sequence_number,
            ErrorCode.unknown_producer_id,
            ErrorCode.duplicate_sequence_number,
        ), f"{self._partition}: sequence {batch.sequence} is refused: {code.name}"
        if code is ErrorCode.none:
            self._cluster.promise(written, result.base_offset, batch.values)
            self._in_flight.remove(batch)
