"""Writes finished batches to one partition: in order, each once, acknowledged by all replicas.

An idempotent producer (KIP-98) that keeps a few requests in flight. After a lost connection or a
moved leadership it finds the leader and sends again whatever was not acknowledged; the broker
recognises what it has already.
"""

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple, Self

from cluster.client.produce_requests import VERSION, Answer, produce_body, read_answer
from cluster.client.producer_ids import new_producer
from cluster.client.security import Address, Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, PeerError, Refused, UserError
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from cluster.records.batch import MAX_INT32
from cluster.records.builder import ProducerIdentity
from cluster.records.renumber import NewBatch, stamp_producer
from cluster.runtime.clock import Clock

EARLIEST: Final = -2
LATEST: Final = -1
IN_FLIGHT_MAX: Final = 5
"""As many batches of a producer a broker remembers."""

_REQUEST_TIMEOUT_MS: Final = 30_000
_ANSWER_TIMEOUT_S: Final = 40.0
_PATIENCE_MS: Final = 60_000
"""How long it tries without getting further."""
_PAUSE_S: Final = 0.2
_NO_TIME: Final = timedelta(0)
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
    }
)
_DENIALS: Final = frozenset(
    {ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed}
)


class NoSuchPartition(UserError):
    """The topic or partition does not exist, which waiting does not change."""


class WriteDenied(UserError):
    """The login lacks a right, which waiting does not change."""

    def __init__(self, text: str, code: ErrorCode) -> None:
        super().__init__(text)
        self.code = code


class _Retriable(Exception):
    """An answer that may be another one soon."""


class _Sent(NamedTuple):
    """A batch that is not acknowledged yet."""

    batch: NewBatch
    correlation_id: int


class PartitionWriter:
    """A context manager; `write` batches, then `finish`."""

    def __init__(
        self,
        servers: Servers,
        topic: str,
        partition: int,
        client_id: str,
        clock: Clock,
        wait: Callable[[float], None],
    ) -> None:
        """`wait` returns after that many seconds, as `time.sleep` does."""
        self.first_offset = -1
        """Offset of the first record that was acknowledged; -1 before that."""
        self.end_offset = -1
        """The offset after the last record that was acknowledged."""
        self.acknowledged_batches = 0
        self._servers = servers
        self._topic = topic
        self._partition = partition
        self._client_id = client_id
        self._clock = clock
        self._wait = wait
        self._client: SocketClient | None = None
        self._producer = ProducerIdentity()
        self._sent: deque[_Sent] = deque()
        self._moved_at = clock.monotonic_ms()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._disconnect()

    def offset_range(self) -> tuple[int, int]:
        """The first offset of the partition and its end. Raises UserError, also without it."""
        while True:
            try:
                client = self._connected()
                return self._offset(client, EARLIEST), self._offset(client, LATEST)
            except (_Retriable, UserError) as problem:
                self._pause(problem)

    def write(self, batch: NewBatch) -> None:
        """Send a batch; waits only while too many are unacknowledged. Raises UserError."""
        while self._producer.producer_id < 0:
            try:
                self._begin(self._connected())
            except (_Retriable, UserError) as problem:
                self._pause(problem)
        stamp_producer(batch, self._producer)
        next_sequence = (self._producer.base_sequence + batch.record_count) & MAX_INT32
        self._producer = self._producer._replace(base_sequence=next_sequence)
        while len(self._sent) >= IN_FLIGHT_MAX:
            self._settle()
        self._sent.append(_Sent(batch, -1))
        self._send_unsent()

    def finish(self) -> None:
        """Wait until everything is acknowledged. Raises UserError."""
        while self._sent:
            self._settle()

    def _settle(self) -> None:
        """Take the answer to the oldest batch in flight."""
        oldest = self._sent[0]
        try:
            if self._client is None or oldest.correlation_id < 0:
                raise _Retriable("not sent")
            answer = read_answer(self._client.receive(oldest.correlation_id))
            if answer.error_code in _TRY_AGAIN:
                raise _Retriable(_words(answer))
        except (_Retriable, UserError, PeerError) as problem:
            self._pause(problem)
            self._send_unsent()
            return
        if answer.error_code is ErrorCode.none:
            if self.first_offset < 0:
                self.first_offset = answer.base_offset
            self.end_offset = answer.base_offset + oldest.batch.record_count
        elif answer.error_code in _DENIALS:
            raise self._denied_or_retriable(answer.error_code)
        elif answer.error_code is not ErrorCode.duplicate_sequence_number:
            raise UserError(
                f"{self._topic}-{self._partition} refuses a batch of"
                f" {len(oldest.batch.content)} bytes: {_words(answer)}"
            )
        self._sent.popleft()
        self.acknowledged_batches += 1
        self._moved_at = self._clock.monotonic_ms()

    def _send_unsent(self) -> None:
        """Send what is not on its way, in order; on failure all of it counts as unsent."""
        try:
            client = self._connected()
            for slot, sent in enumerate(self._sent):
                if sent.correlation_id < 0:
                    body = produce_body(
                        self._topic, self._partition, sent.batch.content, _REQUEST_TIMEOUT_MS
                    )
                    number = client.send(ApiKey.PRODUCE, VERSION, body)
                    self._sent[slot] = sent._replace(correlation_id=number)
        except (_Retriable, UserError):
            self._disconnect()  # the next `_settle` waits and tries again

    def _pause(self, problem: Exception) -> None:
        """Drop the connection and wait a little. Raises UserError when that has lasted too long."""
        self._disconnect()
        if isinstance(problem, NoSuchPartition | WriteDenied):
            raise problem
        if self._clock.monotonic_ms() - self._moved_at > _PATIENCE_MS:
            raise UserError(
                f"{self._topic}-{self._partition} takes no records for"
                f" {_PATIENCE_MS // 1000} s: {problem}"
            ) from problem
        self._wait(_PAUSE_S)

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        for slot, sent in enumerate(self._sent):
            self._sent[slot] = sent._replace(correlation_id=-1)

    def _connected(self) -> SocketClient:
        """The connection to the partition's leader. Raises _Retriable, UserError."""
        if self._client is None:
            self._client = SocketClient.connect(
                self._servers.only(self._leader()), self._client_id, _ANSWER_TIMEOUT_S
            )
        return self._client

    def _leader(self) -> Address:
        asked = MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=self._topic),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        with SocketClient.connect(self._servers, self._client_id) as client:
            answer = client.call(ApiKey.METADATA, asked)
        (topic,) = answer.topics
        if topic.error_code is ErrorCode.unknown_topic_or_partition:
            raise NoSuchPartition(f"there is no topic {self._topic}; create it first")
        if topic.error_code is not ErrorCode.none:
            raise self._denied_or_retriable(topic.error_code)
        found = {each.partition_index: each.leader_id for each in topic.partitions}
        if self._partition not in found:
            raise NoSuchPartition(
                f"topic {self._topic} has {len(found)} partitions, none numbered {self._partition}"
            )
        for broker in answer.brokers:
            if broker.node_id == found[self._partition]:
                return broker.host, broker.port
        raise _Retriable("it has no leader")

    def _begin(self, client: SocketClient) -> None:
        try:
            self._producer = new_producer(client)
        except Refused as refused:
            raise self._denied_or_retriable(refused.code) from None

    def _denied_or_retriable(self, code: ErrorCode) -> Exception:
        if code in _DENIALS:
            return WriteDenied(
                f"not allowed to write to {self._topic}-{self._partition}: {code.name.upper()}",
                code,
            )
        return _Retriable(code.name)

    def _offset(self, client: SocketClient, timestamp: int) -> int:
        partition = ListOffsetsPartition(partition_index=self._partition, timestamp=timestamp)
        asked = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=(ListOffsetsTopic(name=self._topic, partitions=(partition,)),),
            timeout=_NO_TIME,
        )
        ((found,),) = (topic.partitions for topic in client.call(ApiKey.LIST_OFFSETS, asked).topics)
        if found.error_code is not ErrorCode.none:
            raise self._denied_or_retriable(found.error_code)
        return int(found.offset)


def _words(answer: Answer) -> str:
    name = answer.error_code.name.upper()
    return f"{name}: {answer.message}" if answer.message else name
