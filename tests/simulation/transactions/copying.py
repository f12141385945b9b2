"""A copier: reads committed records, writes a record for each, and commits its offsets, all in one
transaction. Each input has one effect, whatever happens.
"""

from collections.abc import Sequence

from cluster.brokers.handlers import offset_fetch
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.simulation.transactions.client_process import BACKOFF_MS, ClientProcess, Pause, Script
from tests.simulation.transactions.producing import (
    NO_MEMBER,
    Abortable,
    TransactionalProducer,
)
from tests.simulation.transactions.reading import Consumer, LogRecord, committed

COPIES_MAX = 2
"""A record is copied this often, so that copiers in a circle come to an end."""
_RECORDS_MAX = 12


def made_of(value: bytes, number: int, name: str) -> bytes:
    """The value of a copy, which no other copy has."""
    return b"%d %s.%d < " % (copies_of(value) + 1, name.encode(), number) + value[:60]


def copies_of(value: bytes) -> int:
    """How often its origin was copied."""
    return value.count(b"<")


class Copier:
    """One process of a copier; its group has no members, so its transactional id fences."""

    _pauses_ms: Sequence[int] = ()
    """Before offsets are committed, and before the end."""

    def __init__(
        self,
        producer: TransactionalProducer,
        consumer: Consumer,
        sources: Sequence[TopicPartition],
        targets: Sequence[TopicPartition],
    ) -> None:
        self._producer = producer
        self._consumer = consumer
        self._process = producer.process
        self._sources = sources
        self._targets = targets
        self._group = f"group of {producer.transactional_id}"
        self._member = NO_MEMBER
        self._made = 0
        self.is_stopping = False

    def run(self) -> Script[None]:
        """Copy until it is told to stop."""
        yield from self._producer.initialize()
        positions = yield from self._committed_positions()
        while not self.is_stopping:
            source = self._process.random.choice(self._sources)
            if not (yield from self._copy_some(source, positions)):
                positions = yield from self._committed_positions()

    def _copy_some(
        self, source: TopicPartition, positions: dict[TopicPartition, int]
    ) -> Script[bool]:
        """Copy the next records if there are some; False if that has failed."""
        fetched = yield from self._consumer.fetch(source, positions[source])
        records = []
        if fetched is not None:
            records = list(committed(fetched, positions[source]))[:_RECORDS_MAX]
        if not records:
            if fetched is not None:
                positions[source] = fetched.next_offset
            yield Pause(self._process.random.choice([20, 100]))
            return True
        if (yield from self._copy(source, records)):
            positions[source] = records[-1].offset + 1
            return True
        return False

    def _copy(self, source: TopicPartition, records: list[LogRecord]) -> Script[bool]:
        """Returns whether the copies are committed."""
        random, producer = self._process.random, self._producer
        transaction = producer.begin()
        is_commit, is_broken = random.random() < 0.85, False
        try:
            values: dict[TopicPartition, list[bytes]] = {}
            for record in records:
                transaction.read[source].append(record.value)
                if copies_of(record.value) < COPIES_MAX:
                    self._made += 1
                    value = made_of(record.value, self._made, self._process.name)
                    transaction.sources[value] = record.value
                    values.setdefault(random.choice(self._targets), []).append(value)
            offsets = {source: records[-1].offset + 1}
            if random.random() < 0.3:
                yield from producer.commit_offsets(self._group, offsets, self._member)
            if values:
                yield from producer.write(transaction, values)
            if self._pauses_ms:
                yield Pause(random.choice(self._pauses_ms))
            yield from producer.commit_offsets(self._group, offsets, self._member)
            if self._pauses_ms:
                yield Pause(random.choice(self._pauses_ms))
            if is_commit:
                yield from producer.end(transaction, is_commit=True)
                return True
        except Abortable:
            is_broken = True
        yield from producer.abort(transaction, is_broken=is_broken)
        return False

    def _committed_positions(self) -> Script[dict[TopicPartition, int]]:
        while True:
            found = yield from committed_offsets(self._process, self._group, self._sources)
            if found is not None:
                return found
            yield Pause(BACKOFF_MS)


def committed_offsets(
    process: ClientProcess, group: str, partitions: Sequence[TopicPartition]
) -> Script[dict[TopicPartition, int] | None]:
    """The committed offsets of a group, 0 without one; None while transactions change them
    (KIP-447), or without an answer."""
    request = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(
                group_id=group,
                topics=tuple(
                    OffsetFetchRequestTopics(name=topic, topic_id=None, partition_indexes=(number,))
                    for topic, number in partitions
                ),
            ),
        ),
        require_stable=True,
    )
    # A broker that does not know yet that another one coordinates the group answers with the
    # offsets of the past, here as in Kafka: it stores nothing, so it need not ask anybody.
    response = yield from process.ask_coordinator(
        CONSUMER_OFFSETS_TOPIC, group, offset_fetch.HANDLER, 8, request, is_present=True
    )
    return _offsets_in(response)


def _offsets_in(response: OffsetFetchResponse | None) -> dict[TopicPartition, int] | None:
    """None if something is not known."""
    if response is None:
        return None
    (of_group,) = response.groups
    if of_group.error_code is not ErrorCode.none:
        return None
    found = {}
    for topic in of_group.topics:
        for each in topic.partitions:
            if each.error_code is not ErrorCode.none:
                return None
            partition = TopicPartition(topic.name, each.partition_index)
            found[partition] = max(0, each.committed_offset)
    return found
