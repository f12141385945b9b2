"""Asks a cluster for its transactions and their producers, and ends them (KIP-664)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from cluster.client.admin import Admin, Outcome
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    Coordinator,
    DescribedProducer,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from cluster.protocol.writer import timestamp_of

_WITH_DURATION: Final = 1
_WITH_PATTERN: Final = 2
"""Versions of ListTransactions."""
_ALL: Final = ListTransactionsRequest()
_FENCING_TIMEOUT: Final = timedelta(seconds=30)
"""The transaction timeout that the id gets, as by Kafka's client that terminates a transaction."""


class ListedTransaction(NamedTuple):
    """A transactional id, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class FoundTransaction(NamedTuple):
    """A described transactional id, and the broker that coordinates it."""

    transaction: DescribedTransaction
    coordinator: int

    @property
    def places(self) -> list[Place]:
        """The partitions of its transaction, in ascending order."""
        return sorted(
            Place(topic.topic, number)
            for topic in self.transaction.topics
            for number in topic.partitions
        )


class TransactionEnd(NamedTuple):
    """The producer whose transaction a marker ends."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def list_transactions(
    admin: Admin,
    *,
    longer_than_ms: int = -1,
    pattern: str | None = None,
    producer_ids: Collection[int] = (),
) -> list[ListedTransaction]:
    """The transactional ids of the cluster that fulfil every condition, in their order.

    `longer_than_ms`: only open transactions of this age; -1: any. `pattern`: a regular expression
    of RE2 that the id matches. Raises Refused, and UserError for a condition that a broker of an
    older Kafka does not know.
    """
    request = ListTransactionsRequest(
        producer_id_filters=tuple(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )

    return sorted(
        each for broker in admin.facts().brokers for each in _listed_by(admin, broker, request)
    )


def find_producer(admin: Admin, producer_id: int) -> tuple[ListedTransaction | None, list[str]]:
    """The transactional id of a producer id, and why brokers did not answer: they may know it."""
    request = ListTransactionsRequest(producer_id_filters=(producer_id,))
    problems = []
    for broker in sorted(admin.facts().brokers):
        try:
            found = _listed_by(admin, broker, request)
        except Refused as refused:
            problems.append(f"broker {broker}: {refused.reason}")
        except UserError as problem:
            problems.append(f"broker {broker}: {problem}")
        else:
            if found:
                return found[0], []
    return None, problems


def _listed_by(
    admin: Admin, broker: int, request: ListTransactionsRequest
) -> list[ListedTransaction]:
    return admin.repeated(
        lambda: admin.broker(broker, lambda client: listed_on(client, broker, request))
    )


def listed_on(
    client: SocketClient, broker: int, request: ListTransactionsRequest = _ALL
) -> list[ListedTransaction]:
    """The transactional ids that the connected broker coordinates. Raises Refused, UserError."""
    _check_version(client, request)
    told = client.call(ApiKey.LIST_TRANSACTIONS, request)
    if told.error_code is not ErrorCode.none:
        raise Refused(told.error_code)
    return [
        ListedTransaction(each.transactional_id, broker, each.producer_id, each.transaction_state)
        for each in told.transaction_states
    ]


def _check_version(client: SocketClient, request: ListTransactionsRequest) -> None:
    version = client.version_of(ApiKey.LIST_TRANSACTIONS)
    needed = 0
    if request.duration_filter >= 0:
        needed = _WITH_DURATION
    if request.transactional_id_pattern is not None:
        needed = _WITH_PATTERN
    if 0 <= version < needed:
        raise UserError(
            f"the broker at {client.address} can list all transactions only: leave out the filters"
        )


def describe_transaction(admin: Admin, transactional_id: str) -> FoundTransaction:
    """One transactional id. Raises Refused: transactional_id_not_found if there is none."""

    def ask(client: SocketClient, at: Coordinator) -> FoundTransaction:
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        (found,) = client.call(ApiKey.DESCRIBE_TRANSACTIONS, request).transaction_states
        if found.error_code is not ErrorCode.none:
            raise Refused(found.error_code)
        return FoundTransaction(found, at.node_id)

    return admin.transaction_coordinator(transactional_id, ask)


def begun_on(client: SocketClient, transactional_ids: Sequence[str]) -> dict[str, float]:
    """When the open transactions of ids began that the connected broker coordinates, in
    milliseconds since the epoch. Raises UserError.
    """
    request = DescribeTransactionsRequest(transactional_ids=tuple(transactional_ids))
    told = client.call(ApiKey.DESCRIBE_TRANSACTIONS, request).transaction_states
    return {
        each.transactional_id: began_ms
        for each in told
        if each.error_code is ErrorCode.none
        and (began_ms := timestamp_of(each.transaction_start_time)) >= 0
    }


def transactions_of(admin: Admin, producer_ids: Collection[int]) -> list[FoundTransaction]:
    """The transactional ids of producers that a coordinator knows. Raises Refused."""
    found = []
    for listed in list_transactions(admin, producer_ids=producer_ids):
        try:
            found.append(describe_transaction(admin, listed.transactional_id))
        except Refused as refused:
            if refused.code is not ErrorCode.transactional_id_not_found:  # expired meanwhile
                raise
    return found


class PartitionProducers(NamedTuple):
    """The producers that a replica of a partition remembers; the reason if it does not tell."""

    code: ErrorCode
    producers: Sequence[DescribedProducer] = ()


def describe_producers(
    admin: Admin, places: Iterable[Place], broker: int | None = None
) -> dict[Place, PartitionProducers]:
    """The producers of partitions by their leaders, or by the replicas on one broker.

    Raises Refused, and UserError if that broker is not reached.
    """
    found: dict[Place, PartitionProducers] = {}

    def ask(client: SocketClient, places: Sequence[Place]) -> Mapping[Place, Outcome]:
        request = DescribeProducersRequest(
            topics=tuple(
                DescribeProducersTopicRequest(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in _by_topic(places).items()
            )
        )
        for topic in client.call(ApiKey.DESCRIBE_PRODUCERS, request).topics:
            for each in topic.partitions:
                place = Place(topic.name, each.partition_index)
                found[place] = PartitionProducers(each.error_code, each.active_producers)
        return {place: Outcome(found[place].code) for place in places}

    if broker is not None:
        wanted = list(places)
        admin.broker(broker, lambda client: ask(client, wanted))
        return found
    return {
        place: PartitionProducers(outcome.code) if outcome.code else found[place]
        for place, outcome in admin.leaders(places, ask).items()
    }


def abort_in_partition(admin: Admin, place: Place, end: TransactionEnd) -> None:
    """Have the leader write an abort marker, whatever the coordinator knows. Raises Refused."""

    def ask(client: SocketClient, places: Sequence[Place]) -> Mapping[Place, Outcome]:
        marker = WritableTxnMarker(
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            transaction_result=False,
            topics=tuple(
                WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in _by_topic(places).items()
            ),
            coordinator_epoch=end.coordinator_epoch,
        )
        told = client.call(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=(marker,)))
        return {
            Place(topic.name, each.partition_index): Outcome(each.error_code)
            for found in told.markers
            for topic in found.topics
            for each in topic.partitions
        }

    for outcome in admin.leaders([place], ask).values():
        if outcome.code is not ErrorCode.none:
            raise Refused(outcome.code)


def terminate_transaction(admin: Admin, transactional_id: str) -> None:
    """Fence the producer of a transactional id; the coordinator aborts its transaction.

    Returns when that has ended in all partitions. Raises Refused.
    """

    def ask(client: SocketClient, _at: Coordinator) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout=_FENCING_TIMEOUT
        )
        told = client.call(ApiKey.INIT_PRODUCER_ID, request)
        if told.error_code is not ErrorCode.none:
            raise Refused(told.error_code)

    admin.transaction_coordinator(transactional_id, ask)


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found
