"""An idempotent producer: one batch at a time, sent again until it is acknowledged."""

from typing import Any

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.simulation.checks import Replicated
from tests.simulation.cluster import SimulatedCluster

RETRY_MS = 2_000
"""Above the timeout of a request and every delay, so that an attempt is over before the next."""


class IdempotentProducer:
    """Writes to one partition with acks=all.

    Whatever happens, its records are in the log once, in order, and without a gap.
    """

    def __init__(
        self, cluster: SimulatedCluster, partition: TopicPartition, producer_id: int
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._producer_id = producer_id
        self._topic_id = cluster.topic_id(partition.topic)
        self._sequence = 0
        self._values: list[bytes] = []
        self._attempt = 0
        self._sent_at_ms: int | None = None

    def step(self) -> None:
        """Send the next batch, or the present one again when it is time."""
        cluster = self._cluster
        now_ms = cluster.world.now_ms
        if self._sent_at_ms is not None and now_ms - self._sent_at_ms < RETRY_MS:
            return
        if cluster.topic_id(self._partition.topic) != self._topic_id:
            return  # the topic was deleted; a new one of that name is not ours
        leader = cluster.believed_leader(self._partition)
        if leader is None:
            return
        if not self._values:
            count = cluster.random.choice([1, 2, 5])
            self._values = [
                b"producer %d record %d" % (self._producer_id, self._sequence + n)
                for n in range(count)
            ]
        self._attempt += 1
        attempt = self._attempt
        self._sent_at_ms = now_ms
        batch = build_batch(
            [NewRecord(value, None, cluster.world.wall_ms()) for value in self._values],
            producer=ProducerIdentity(self._producer_id, 0, self._sequence),
        )
        cluster.send(
            leader,
            self._partition,
            bytes(batch),
            -1,
            lambda *answer: self._on_answer(attempt, *answer),
        )

    def _on_answer(
        self, attempt: int, result: Any, written: Replicated, is_current_leader: bool
    ) -> None:
        if attempt != self._attempt or written.topic_id != self._topic_id:
            return
        code = ErrorCode(result.error_code)
        # A leader of the past may not know the batches before this one.
        assert not is_current_leader or code not in (
            ErrorCode.out_of_order_sequence_number,
            ErrorCode.unknown_producer_id,
            ErrorCode.duplicate_sequence_number,
        ), f"{self._partition}: sequence {self._sequence} is refused: {code.name}"
        self._sent_at_ms = None
        if code is ErrorCode.none:
            self._cluster.promise(written, result.base_offset, self._values)
            self._sequence += len(self._values)
            self._values = []
