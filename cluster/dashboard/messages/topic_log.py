"""Reads the partitions of one topic from their leaders, within the time of one request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar

from cluster.client.fetch_requests import VERSION, Fetched, fetch_body, read_fetch_answer
from cluster.client.record_requests import EARLIEST, LATEST
from cluster.client.security import Address
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import by_leader
from cluster.dashboard.messages.budget import Budget
from cluster.dashboard.messages.paging import Range, Round
from cluster.model.errors import ErrorCode, PeerError, UserError
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MetadataRequest,
    MetadataRequestTopic,
)

ANSWER_S: Final = 2.0
"""For a connection and for an answer: a paused broker accepts connections and does not answer."""
_LEAST_S: Final = 0.2
FETCH_MAX_BYTES: Final = 1024 * 1024
PARTITION_MAX_BYTES: Final = 128 * 1024
_NO_REPLICA: Final = -1
_NO_WAIT: Final = timedelta(0)
_UNKNOWN: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})
_GONE: Final = _UNKNOWN | {ErrorCode.invalid_topic_exception}
_MOVING: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.offset_not_available,
    }
)

Connect = Callable[[Iterable[Address], float], SocketClient]
Answer = TypeVar("Answer")


class Refusals(Protocol):
    """Says why a topic cannot be read."""

    def denied(self, topic: str) -> UserError:
        """The dashboard's login may not read it."""
        ...

    def gone(self, topic: str) -> UserError:
        """There is no such topic."""
        ...


class TopicLog:
    """Implements `paging.Source`. A context manager; `failed` has what cannot be read, and why."""

    def __init__(
        self,
        topic: str,
        addresses: Sequence[Address],
        connect: Connect,
        refusals: Refusals,
        budget: Budget,
        *,
        is_committed_only: bool,
    ) -> None:
        """Finds the leaders. Raises UserError."""
        self._topic = topic
        self._connect = connect
        self._refusals = refusals
        self._budget = budget
        self._is_committed_only = is_committed_only
        self._clients: dict[Address, SocketClient] = {}
        self._turns: dict[int, int] = {}
        """The last round in which a partition got something."""
        self._round = 0
        self.failed: dict[int, str] = {}
        self.leaders: dict[int, Address] = {}
        self._names: dict[Address, str] = {}
        self._find_leaders(addresses)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    @property
    def partitions(self) -> list[int]:
        """The numbers of all partitions."""
        return sorted([*self.leaders, *self.failed])

    def _find_leaders(self, addresses: Sequence[Address]) -> None:
        asked = MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=self._topic),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        with self._connect(addresses, self._patience_s()) as client:
            told = client.call(ApiKey.METADATA, asked)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in told.brokers}
        self._names = {address: f"broker {number}" for number, address in brokers.items()}
        (topic,) = told.topics
        self._check(topic.error_code)
        if topic.error_code is not ErrorCode.none:
            raise UserError(f"the broker refuses: {_words(topic.error_code)}")
        for each in topic.partitions:
            leader = brokers.get(each.leader_id)
            if leader is None:
                self.failed[each.partition_index] = "it has no leader at present"
            else:
                self.leaders[each.partition_index] = leader

    def ranges(self, partitions: Iterable[int]) -> dict[int, Range]:
        """The offsets of partitions; those that cannot be read are missing. Raises UserError."""
        first = self.offsets_at(partitions, EARLIEST)
        end = self.offsets_at(first, LATEST)
        return {number: Range(first[number], end[number]) for number in first if number in end}

    def high_watermarks(self, partitions: Iterable[int]) -> dict[int, int]:
        """The ends of partitions with the records of open transactions. Raises UserError."""
        return self.offsets_at(partitions, LATEST, is_committed_only=False)

    def offsets_at(
        self, partitions: Iterable[int], timestamp_ms: int, *, is_committed_only: bool | None = None
    ) -> dict[int, int]:
        """The first offset at or after a time, EARLIEST or LATEST; -1 where there is none.

        Partitions that cannot be read are missing. Raises UserError.
        """
        if is_committed_only is None:
            is_committed_only = self._is_committed_only
        found: dict[int, int] = {}
        for address, numbers in self._by_leader(partitions).items():
            request = ListOffsetsRequest(
                replica_id=_NO_REPLICA,
                isolation_level=int(is_committed_only),
                topics=(
                    ListOffsetsTopic(
                        name=self._topic,
                        partitions=tuple(
                            ListOffsetsPartition(partition_index=number, timestamp=timestamp_ms)
                            for number in numbers
                        ),
                    ),
                ),
                timeout=_NO_WAIT,
            )
            told = self._ask(address, numbers, partial(_listed, request=request))
            for each in told or ():
                if self._is_readable(each.partition_index, each.error_code):
                    found[each.partition_index] = each.offset
        return found

    def fetch(self, offsets: Mapping[int, int]) -> Round:
        """Send one round of requests, see `paging.Source`."""
        self._round += 1
        answers: dict[int, Fetched] = {}
        waiting = sorted(offsets, key=lambda number: self._turns.get(number, 0))
        for address, numbers in self._by_leader(waiting).items():
            if self._budget.seconds_left <= 0:
                break
            body = fetch_body(
                self._topic,
                {number: offsets[number] for number in numbers},
                is_committed_only=self._is_committed_only,
                max_bytes=FETCH_MAX_BYTES,
                partition_max_bytes=PARTITION_MAX_BYTES,
            )
            told = self._ask(address, numbers, partial(_fetched, body=body))
            for each in told or ():
                if self._is_readable(each.partition, each.error_code):
                    answers[each.partition] = each
                    if each.records:
                        self._turns[each.partition] = self._round
        return Round(answers, {each: self.failed[each] for each in offsets if each in self.failed})

    def _by_leader(self, partitions: Iterable[int]) -> dict[Address, list[int]]:
        return by_leader(
            (number, self.leaders[number]) for number in partitions if number not in self.failed
        )

    def _ask(
        self, address: Address, partitions: Sequence[int], ask: Callable[[SocketClient], Answer]
    ) -> Answer | None:
        """The answer of a leader; None if it does not answer, which its partitions then lack."""
        try:
            client = self._clients.get(address)
            if client is None:
                client = self._clients[address] = self._connect([address], self._patience_s())
            client.wait_for_answers(self._patience_s())
            return ask(client)
        except (UserError, PeerError) as problem:
            why = f"its leader, {self._names[address]}, does not answer: {problem}"
            self.failed |= dict.fromkeys(partitions, why)
            if (lost := self._clients.pop(address, None)) is not None:
                lost.close()
            return None

    def _patience_s(self) -> float:
        return max(_LEAST_S, min(ANSWER_S, self._budget.seconds_left))

    def _is_readable(self, partition: int, code: ErrorCode) -> bool:
        """Whether a partition was read. Raises UserError if the topic cannot be read at all."""
        if code in _MOVING:
            self.failed[partition] = "its leader is changing: read again"
        elif code is ErrorCode.offset_out_of_range:
            self.failed[partition] = "its first records were deleted meanwhile: read again"
        elif code in _UNKNOWN:  # although the controller's metadata has it
            self.failed[partition] = "its leader does not have it yet, or no longer: read again"
        elif code is not ErrorCode.none:
            self._check(code)
            self.failed[partition] = f"its leader refuses: {_words(code)}"
        return code is ErrorCode.none

    def _check(self, code: ErrorCode) -> None:
        if code is ErrorCode.topic_authorization_failed:
            raise self._refusals.denied(self._topic)
        if code in _GONE:
            raise self._refusals.gone(self._topic)


def _words(code: ErrorCode) -> str:
    return code.name.replace("_", " ")


def _fetched(client: SocketClient, body: bytes) -> list[Fetched]:
    return read_fetch_answer(client.receive(client.send(ApiKey.FETCH, VERSION, body)))


def _listed(client: SocketClient, request: ListOffsetsRequest) -> list[Any]:
    told = client.call(ApiKey.LIST_OFFSETS, request)
    return [each for topic in told.topics for each in topic.partitions]
