"""Consumers of either isolation level, which filter aborted records as Kafka's clients do."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from cluster.brokers.handlers import fetch
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.protocol.fetch_codec import FetchPartition, FetchRequest, FetchTopic
from cluster.records.batch import batches_of
from cluster.records.markers import read_marker
from cluster.records.reader import read_records
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.transactions.client_process import (
    BACKOFF_MS,
    Ask,
    ClientProcess,
    Pause,
    Script,
)
from tests.simulation.transactions.ledger import Delivery, Ledger, Seen

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_BYTES_MAX = 1_500


class LogRecord(NamedTuple):
    """One record of a log, or the marker that ends a transaction of its producer."""

    offset: int
    producer_id: int
    epoch: int
    is_transactional: bool
    value: bytes
    is_commit: bool | None = None
    """None: it is no marker."""


class Fetched(NamedTuple):
    """An answer for one partition."""

    seen: Seen
    aborted: Sequence[tuple[int, int]]
    records: list[LogRecord]
    next_offset: int


class Consumer:
    """Reads partitions from their beginning on."""

    def __init__(
        self, process: ClientProcess, ledger: Ledger, isolation: int = READ_COMMITTED
    ) -> None:
        self.process = process
        self._ledger = ledger
        self._isolation = isolation
        self._epochs: dict[TopicPartition, int] = {}
        """The highest leader epoch that it knows of each partition (KIP-320)."""

    def run(self, partitions: Sequence[TopicPartition]) -> Script[None]:
        """Read for ever."""
        positions = dict.fromkeys(partitions, 0)
        while True:
            for partition in partitions:
                fetched = yield from self.fetch(partition, positions[partition])
                if fetched is None:
                    yield Pause(BACKOFF_MS)
                    continue
                first, positions[partition] = positions[partition], fetched.next_offset
                if self._isolation == READ_COMMITTED:
                    self._ledger.delivered[self.process.name, partition] += [
                        Delivery(each.offset, each.value, fetched.seen.high_watermark)
                        for each in committed(fetched, first)
                    ]
            yield Pause(self.process.random.choice([1, 10, 50]))

    def fetch(self, partition: TopicPartition, offset: int) -> Script[Fetched | None]:
        """One answer without an error, or None."""
        state = self.process.cluster.believed_state(partition)
        if state is None or state.leader_epoch < self._epochs.get(partition, 0):
            return None
        self._epochs[partition] = state.leader_epoch
        max_wait_ms = self.process.random.choice([0, 0, 100])
        request = _request(partition, offset, state.leader_epoch, self._isolation, max_wait_ms)
        answer = yield Ask(state.leader, fetch.HANDLER, 12, request, copy=_copied)
        if answer is None:
            return None
        code, high_watermark, stable_offset, aborted, content = answer
        if code is not ErrorCode.none:
            # A leader of the past may lack what a new process has not seen the epoch of.
            present = self.process.cluster.registered_state(partition)
            is_present = present is not None and present.leader_epoch == state.leader_epoch
            assert not is_present or code is not ErrorCode.offset_out_of_range, (
                f"{partition}: what {self.process.name} has read up to {offset} is gone"
            )
            return None
        seen = Seen(state.leader_epoch, high_watermark, stable_offset)
        self._ledger.see(self.process.name, partition, seen)
        records, next_offset = records_in(content)
        return Fetched(seen, aborted, records, max(next_offset, offset))


def _request(
    partition: TopicPartition, offset: int, leader_epoch: int, isolation: int, max_wait_ms: int
) -> FetchRequest:
    wanted = FetchPartition(partition.partition, leader_epoch, offset, -1, -1, _BYTES_MAX)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=_BYTES_MAX,
        isolation_level=isolation,
        session_id=0,
        session_epoch=-1,
        rack_id="",
        replica_id=-1,
        topics=[FetchTopic(partition.topic, None, [wanted])],
        forgotten=[],
    )


def _copied(answer: Any) -> tuple[ErrorCode, int, int, Sequence[tuple[int, int]], bytes]:
    item = answer[0][0][2][0]
    content = b"" if item.records is None else bytes(item.records.view())
    return (
        ErrorCode(item.error_code),
        item.high_watermark,
        item.last_stable_offset,
        tuple(item.aborted_transactions or ()),
        content,
    )


def records_in(content: bytes) -> tuple[list[LogRecord], int]:
    """Records and markers, and the offset after the last batch; 0 without one."""
    found: list[LogRecord] = []
    next_offset = 0
    for header, batch in batches_of(memoryview(content)):
        next_offset = header.last_offset + 1
        if header.is_control:
            marker = read_marker(header, batch)
            assert marker is not None
            found.append(
                LogRecord(
                    header.base_offset,
                    header.producer_id,
                    header.producer_epoch,
                    True,
                    b"",
                    marker.is_commit,
                )
            )
            continue
        found += [
            LogRecord(
                record.offset,
                header.producer_id,
                header.producer_epoch,
                header.is_transactional,
                bytes(record.value or b""),
            )
            for record in read_records(batch)
        ]
    return found, next_offset


def committed(fetched: Fetched, first_offset: int) -> Iterable[LogRecord]:
    """The records that a consumer with `read_committed` gives to its application, like Kafka's
    `CompletedFetch`."""
    begins = sorted(fetched.aborted, key=lambda each: each[1])
    is_aborted: set[int] = set()
    for record in fetched.records:
        while begins and begins[0][1] <= record.offset:
            is_aborted.add(begins.pop(0)[0])
        if record.is_commit is not None:
            if not record.is_commit:
                is_aborted.discard(record.producer_id)
            continue
        if record.is_transactional and record.producer_id in is_aborted:
            continue
        if record.offset >= first_offset:
            yield record


def whole_log(cluster: SimulatedCluster, partition: TopicPartition) -> list[LogRecord]:
    """Everything that the leader has, when all is quiet."""
    found: list[LogRecord] = []
    broker = cluster.brokers[cluster.leader(partition)]
    offset = 0
    while True:
        request = _request(partition, offset, -1, READ_UNCOMMITTED, 0)
        answers: list[Any] = []
        take: Callable[[Any], None] = lambda answer, into=answers: into.append(_copied(answer))  # noqa: E731
        broker.handle(fetch.HANDLER, 12, request, take)
        code, _, _, _, content = answers[0]
        assert code is ErrorCode.none
        records, next_offset = records_in(content)
        if not records:
            return found
        found += records
        offset = next_offset
