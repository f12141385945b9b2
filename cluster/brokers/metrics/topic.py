"""The topic `__cluster_metrics`: its creation, and this broker's appends to it.

A broker's records go to partition `broker id % partitions`, so that they stay in order. The
partition's leader appends them; another broker sends it the batch over the control link. They take
no part in quotas. Delivery is at most once: a batch is retried only if it was certainly not
appended.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.metrics.records import MetricRecord
from cluster.brokers.replication.own_appends import AppendOutcome, OwnAppends
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.model.errors import ErrorCode
from cluster.model.ids import NO_BROKER, BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.model.topics import METRICS_TOPIC, NewTopic
from cluster.protocol.peer.control import Acknowledged, ProduceMetrics, Refusal
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, build_batch
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)


BATCH_MAX_BYTES: Final = 512 << 10
"""The upper bound of a batch's size, compressed or not."""
RECORD_MAX_BYTES: Final = 256 << 10
"""A larger value is dropped, since readers refuse it. It takes two names of 32 KB in control
characters, each of which JSON writes with six bytes."""
_RECORD_OVERHEAD_BYTES: Final = 40
"""Bytes of each record beside key and value: one, and up to seven numbers of up to 5 bytes."""
_BATCH_OVERHEAD_BYTES: Final = 1024
"""The header, and the growth of bytes that LZ4 cannot compress."""
_REPLICAS_MAX: Final = 3
CONFIGS: Final = {
    "retention.ms": str(24 * 60 * 60 * 1000),
    # Retention removes whole segments, so a segment must not hold the records of days.
    "segment.ms": str(30 * 60 * 1000),
    "retention.bytes": str(1 << 30),
    "segment.bytes": str(64 << 20),
    "cleanup.policy": "delete",
    # Readers compare the timestamp of a record with the time in its value.
    "message.timestamp.type": "CreateTime",
    # One record can create windows of its hour, so clients may only write records of that day.
    "message.timestamp.before.max.ms": str(24 * 60 * 60 * 1000),
    "max.message.bytes": str(BATCH_MAX_BYTES),
}
"""The configs of a new topic: each partition keeps a day and half an hour at most, and at most 1
GiB and a segment."""
_SETTLED_AFTER_MS: Final = 1_500
"""How long the set of brokers must be stable: they do not all register at once."""
_CREATE_TIMEOUT_MS: Final = 10_000
_SEND_TIMEOUT_MS: Final = 30_000
"""Above replica.lag.time.max.ms: a batch may wait that long for a replica that has stopped."""
_BATCHES_MAX: Final = 128
"""Batches that may wait for a leader; the oldest is dropped first.

Enough for a minute of one batch a second, and for 10,000 records of lag, which make 50 batches."""
_WAITING_MAX_BYTES: Final = 16 << 20
"""The bytes that may wait for a leader: records may contain long client names."""
_RECORDS_PER_BATCH: Final = 500
"""About 200 KB; less when it is compressed."""
_LASTING: Final = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
        ErrorCode.message_too_large,
    }
)
"""Errors that another attempt would also meet, for instance because somebody changed the configs of
the topic."""
_CODEC: Final = Compression.LZ4
"""Records repeat each other's words: compression leaves a tenth, for some 0.3 ms per batch."""


class MetricTopic:
    """Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        loop: EventLoop,
        metadata: MetadataCache,
        appends: OwnAppends,
        link: ControlLink,
    ) -> None:
        self._local_id = local_id
        self._loop = loop
        self._metadata = metadata
        self._appends = appends
        self._link = link
        self._waiting: deque[tuple[bytes | bytearray, int]] = deque()
        self._in_flight = False
        self._brokers: frozenset[BrokerId] = frozenset()
        self._settled_at_ms = 0
        self._is_creating = False
        self.dropped_count = 0
        """Records that will never be in the topic."""
        self._refusal = ErrorCode.none
        """Why the last batch was not written or the topic not created; each reason is logged
        once."""

    # -- creation --------------------------------------------------------------------------------

    def create_if_missing(self, controller: ControllerRequests, default_replicas: int) -> None:
        """Create a missing topic on the controller, once its brokers have registered."""
        now_ms = self._loop.now_ms
        brokers = frozenset(self._metadata.brokers)
        if brokers != self._brokers:
            self._brokers = brokers
            self._settled_at_ms = now_ms + _SETTLED_AFTER_MS
        replicas = min(_REPLICAS_MAX, default_replicas)
        if (
            METRICS_TOPIC in self._metadata.topics
            or self._is_creating
            or now_ms < self._settled_at_ms
            or len(brokers) < replicas
        ):
            return
        self._is_creating = True
        ids = sorted(brokers)
        # Partition p is led by the p-th broker, so that records seldom leave their broker.
        assignment = {
            p: tuple(ids[(p + r) % len(ids)] for r in range(replicas)) for p in range(len(ids))
        }
        topic = NewTopic(METRICS_TOPIC, assignment=assignment, configs=CONFIGS)

        def on_done(outcomes: dict[str, Outcome], _planned: object) -> None:
            self._is_creating = False
            code = outcomes[METRICS_TOPIC].code
            if code is ErrorCode.topic_already_exists:
                code = ErrorCode.none
            if code is not ErrorCode.none and code is not self._refusal:
                log.warning("cannot create %s: %s", METRICS_TOPIC, code.name)
            self._refusal = code

        controller.create_topics(
            [topic], validate_only=False, timeout_ms=_CREATE_TIMEOUT_MS, on_done=on_done
        )

    # -- records ---------------------------------------------------------------------------------

    def send(self, records: Iterable[MetricRecord]) -> None:
        """Write records with this broker's id as the key, now or when there is a leader."""
        for part in self._parts(records):
            self._waiting.append((build_batch(part, codec=_CODEC), len(part)))
        sizes = sum(len(batch) for batch, _ in self._waiting)
        while len(self._waiting) > _BATCHES_MAX or sizes > _WAITING_MAX_BYTES:
            batch, count = self._waiting.popleft()
            sizes -= len(batch)
            self.dropped_count += count
        self.flush()

    def _parts(self, records: Iterable[MetricRecord]) -> Iterator[list[NewRecord]]:
        """The records of each batch, bounded by count and bytes."""
        key = str(self._local_id).encode()
        part: list[NewRecord] = []
        part_bytes = _BATCH_OVERHEAD_BYTES
        for value, timestamp_ms in records:
            if len(value) > RECORD_MAX_BYTES:
                self.dropped_count += 1
                continue
            size_bytes = len(value) + len(key) + _RECORD_OVERHEAD_BYTES
            if part and (
                part_bytes + size_bytes > BATCH_MAX_BYTES or len(part) == _RECORDS_PER_BATCH
            ):
                yield part
                part = []
                part_bytes = _BATCH_OVERHEAD_BYTES
            part.append(NewRecord(value, key, timestamp_ms))
            part_bytes += size_bytes
        if part:
            yield part

    def flush(self) -> None:
        """Append the waiting batches in order, here or at a peer, as long as there is a leader."""
        while self._waiting and not self._in_flight:
            topic = self._metadata.topics.get(METRICS_TOPIC)
            if topic is None or not topic.partitions:
                return
            number = self._local_id % len(topic.partitions)
            state = topic.partitions.get(number)
            leader = NO_BROKER if state is None else state.leader
            if leader == self._local_id:
                if not self._append(number):
                    return
            elif leader in self._metadata.brokers:
                self._ask(self._metadata.brokers[leader].control_endpoint, number)
            else:
                return

    def on_request(self, request: ProduceMetrics, reply: Reply) -> None:
        """Append a peer's batch to a partition that this broker leads as far as the peer knows."""

        def on_outcome(outcome: AppendOutcome) -> None:
            if outcome.code is ErrorCode.none:
                reply(Acknowledged(ErrorCode.none))
            elif outcome.is_appended:
                reply(Refusal(outcome.code, "it may be in the log all the same"))
            elif outcome.code in _LASTING:
                reply(Refusal(outcome.code, outcome.detail))
            else:
                reply(Acknowledged(ErrorCode.not_leader_or_follower))

        partition = TopicPartition(METRICS_TOPIC, request.partition)
        self._appends.append(partition, memoryview(request.batch), on_outcome)

    def _append(self, number: int) -> bool:
        """Append the oldest batch here; False if it has to wait for another leader."""
        batch, count = self._waiting.popleft()
        self._in_flight = True

        def on_outcome(outcome: AppendOutcome) -> None:
            self._in_flight = False
            former, self._refusal = self._refusal, outcome.code
            if outcome.code is ErrorCode.none:
                self.flush()
                return
            is_lasting = outcome.code in _LASTING
            if outcome.code is not former and (
                is_lasting or outcome.code is ErrorCode.kafka_storage_error
            ):
                log.warning("cannot write metric records: %s", outcome.detail)
            if outcome.is_appended:
                self.dropped_count += count  # it may still be committed: not retried
            elif is_lasting:
                self.dropped_count += count
                self.flush()
            else:
                self._waiting.appendleft((batch, count))

        partition = TopicPartition(METRICS_TOPIC, number)
        self._appends.append(partition, memoryview(batch), on_outcome)
        return not self._waiting or self._waiting[0][0] is not batch

    def _ask(self, endpoint: str, number: int) -> None:
        batch, count = self._waiting.popleft()
        self._in_flight = True

        def on_reply(answer: Acknowledged | Refusal | None) -> None:
            self._in_flight = False
            if answer is None:
                self.dropped_count += count  # it may have been appended: not retried
            elif isinstance(answer, Refusal):
                self.dropped_count += count  # the next leader would refuse it as well
            elif answer.code is not ErrorCode.none:
                self._waiting.appendleft((batch, count))  # the next call tries the next leader
                return
            self.flush()

        self._link.ask(endpoint, ProduceMetrics(number, bytes(batch)), on_reply, _SEND_TIMEOUT_MS)
