"""Looks up where logs end: here for partitions that this broker leads, by requests for others.

Lag is measured against high watermarks, up to which consumers can read.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.model.ids import NO_BROKER, BrokerId, TopicPartition
from cluster.protocol.peer.control import AskLogEnds, LogEnds, NumberedPartitions, Refusal

Ends = dict[str, dict[int, int]]
"""By topic and partition; partitions whose end is unknown are absent."""
Wanted = Mapping[str, set[int]]

_NOT_LED: Final = -1
_PER_STEP: Final = 64
_PER_REQUEST: Final = 1_000
"""Partitions; a leader takes half a millisecond to answer."""
_TIMEOUT_MS: Final = 2_000


class LeaderLogEnds:
    """Owned by the broker's thread."""

    def __init__(self, table: PartitionTable, metadata: MetadataCache, link: ControlLink) -> None:
        self._table = table
        self._metadata = metadata
        self._link = link

    def on_request(self, request: AskLogEnds, reply: Reply) -> None:
        """A peer asks for the ends of logs that it believes this broker leads."""
        ends = [
            [self._own_end(TopicPartition(topic, number)) for number in partitions]
            for topic, partitions in request.topics
        ]
        reply(LogEnds(ends))

    def _own_end(self, partition: TopicPartition) -> int:
        replica = self._table.find(partition)
        if replica is None or replica.leader is None:
            return _NOT_LED
        return replica.leader.high_watermark

    def gather(self, wanted: Wanted, on_done: Callable[[Ends], None]) -> Iterator[None]:
        """The steps of looking up the ends of these partitions.

        `on_done` is called once, when all leaders have answered or timed out, perhaps in the last
        step.
        """
        gathered = _Gathering(on_done)
        elsewhere: dict[BrokerId, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        looked_at = 0
        for topic, partitions in wanted.items():
            for number in partitions:
                place = TopicPartition(topic, number)
                end = self._own_end(place)
                if end != _NOT_LED:
                    gathered.ends.setdefault(topic, {})[number] = end
                else:
                    state = self._metadata.partition(place)
                    leader = NO_BROKER if state is None else state.leader
                    if leader in self._metadata.brokers:
                        elsewhere[leader][topic].append(number)
                looked_at += 1
                if looked_at % _PER_STEP == 0:
                    yield
        for leader, topics in elsewhere.items():
            for request in _requests(topics):
                self._ask(leader, request, gathered)
                yield
        gathered.answered()

    def _ask(self, leader: BrokerId, request: AskLogEnds, gathered: "_Gathering") -> None:
        broker = self._metadata.brokers.get(leader)
        if broker is None:
            return  # it has left since

        def on_reply(answer: LogEnds | Refusal | None) -> None:
            if isinstance(answer, LogEnds):
                gathered.take(request, answer)
            gathered.answered()

        gathered.awaited += 1
        self._link.ask(broker.control_endpoint, request, on_reply, _TIMEOUT_MS)


class _Gathering:
    """The ends found so far. `awaited` counts open requests, and one more while `gather` runs."""

    def __init__(self, on_done: Callable[[Ends], None]) -> None:
        self._on_done = on_done
        self.ends: Ends = {}
        self.awaited = 1

    def take(self, request: AskLogEnds, answer: LogEnds) -> None:
        """Take the answer of a leader; missing values are unknown ends."""
        for (topic, partitions), ends in zip(request.topics, answer.ends, strict=False):
            for number, end in zip(partitions, ends, strict=False):
                if end != _NOT_LED:
                    self.ends.setdefault(topic, {})[number] = end

    def answered(self) -> None:
        """Count an answer, or the end of `gather`."""
        self.awaited -= 1
        if not self.awaited:
            self._on_done(self.ends)


def _requests(topics: Mapping[str, list[int]]) -> Iterator[AskLogEnds]:
    """Requests of at most `_PER_REQUEST` partitions each."""
    some: list[NumberedPartitions] = []
    room = _PER_REQUEST
    for topic, partitions in topics.items():
        for start in range(0, len(partitions), _PER_REQUEST):
            piece = partitions[start : start + _PER_REQUEST]
            if len(piece) > room:
                yield AskLogEnds(some)
                some, room = [], _PER_REQUEST
            some.append(NumberedPartitions(topic, piece))
            room -= len(piece)
    if some:
        yield AskLogEnds(some)
