"""AddPartitionsToTxn (API key 24), versions 0-5.

Partitions become part of a transaction, all of a request or none. From version 4 on, one request
has several transactions, or only asks whether partitions are part of them: Kafka's brokers send
these, and so they need CLUSTER_ACTION. Brokers of this cluster ask each other otherwise
(`CheckTransactions`).
v2 PRODUCER_FENCED; v3 flexible; v4 several transactions; v5 TRANSACTION_ABORTABLE (KIP-890).
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from cluster.brokers.handlers.access import (
    CLUSTER_ACTION,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    check,
    may,
)
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted, now_or_later
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.handlers.transaction_requests import client_of, fenced_as
from cluster.coordinator.transactions.requests import (
    AddPartitions,
    ProducerIdentity,
    VerifyPartitions,
)
from cluster.coordinator.transactions.transaction import EPOCH_BUMPED_AT_END
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.model.topics import INTERNAL_TOPICS
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

API: Final = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5)

_FIRST_OF_BROKERS: Final = 4
_Codes = Mapping[TopicPartition, ErrorCode]


def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext, services: TransactionServices
) -> AddPartitionsToTxnResponse | NotYet:
    is_of_broker = context.version >= _FIRST_OF_BROKERS
    transactions = request.transactions
    if not is_of_broker:
        transactions = (
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            ),
        )
    elif not may(services, context, CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(
            throttle_time=timedelta(0),
            error_code=ErrorCode.cluster_authorization_failed,
            results_by_transaction=(),
        )
    results: dict[int, _Codes] = {}

    def begin(respond: Callable[[AddPartitionsToTxnResponse], None]) -> None:
        def take(number: int, codes: _Codes) -> None:
            results[number] = codes
            if len(results) == len(transactions):
                in_order = [results[each] for each in range(len(transactions))]
                respond(_response(transactions, in_order, context.version))

        for number, transaction in enumerate(transactions):
            _add(transaction, context, services, partial(take, number))

    if not transactions:
        return _response((), [], context.version)
    return now_or_later(begin, context)


def _add(
    transaction: AddPartitionsToTxnTransaction,
    context: RequestContext,
    services: TransactionServices,
    on_done: Callable[[_Codes], None],
) -> None:
    partitions = _partitions(transaction.topics)
    transactional_id = transaction.transactional_id
    try:
        if context.version < _FIRST_OF_BROKERS:
            check(services, context, WRITE_TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise Refused(ErrorCode.invalid_request)
        if refused_ones := _unusable(partitions, context, services):
            rest = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
            on_done({**rest, **refused_ones})
            return
        led = services.transactions.find(transactional_id)
    except Refused as refused:
        on_done(dict.fromkeys(partitions, refused.code))
        return
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    wanted = frozenset(partitions)
    if transaction.verify_only:
        on_done(led.ask(VerifyPartitions(transactional_id, producer, wanted)))
        return
    is_of_broker = context.version >= _FIRST_OF_BROKERS
    client = None if is_of_broker else client_of(context)
    client_version = EPOCH_BUMPED_AT_END if is_of_broker else 0
    led.submit(
        AddPartitions(transactional_id, producer, wanted, client_version, client),
        lambda code: on_done(dict.fromkeys(partitions, code)),
    )


def _unusable(
    partitions: Iterable[TopicPartition], context: RequestContext, services: TransactionServices
) -> dict[TopicPartition, ErrorCode]:
    """Partitions that do not exist, or to which the client of an old version may not write."""
    found = {}
    is_client = context.version < _FIRST_OF_BROKERS
    allowed: dict[str, bool] = {}
    for partition in partitions:
        topic = partition.topic
        if topic not in allowed:
            allowed[topic] = not is_client or (
                topic not in INTERNAL_TOPICS and may(services, context, WRITE_TOPIC, topic)
            )
        if not allowed[topic]:
            found[partition] = ErrorCode.topic_authorization_failed
        elif services.metadata.partition(partition) is None:
            found[partition] = ErrorCode.unknown_topic_or_partition
    return found


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _response(
    transactions: Iterable[AddPartitionsToTxnTransaction], results: list[_Codes], version: int
) -> AddPartitionsToTxnResponse:
    found = tuple(
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=tuple(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AddPartitionsToTxnPartitionResult(
                            partition_index=number,
                            partition_error_code=fenced_as(
                                codes[TopicPartition(topic.name, number)], version
                            ),
                        )
                        for number in topic.partitions
                    ),
                )
                for topic in transaction.topics
            ),
        )
        for transaction, codes in zip(transactions, results, strict=True)
    )
    is_of_broker = version >= _FIRST_OF_BROKERS
    return AddPartitionsToTxnResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        results_by_topic_v3_and_below=() if is_of_broker else found[0].topic_results,
        results_by_transaction=found if is_of_broker else (),
    )


HANDLER: Final = adapted(
    API,
    handle,
    TransactionServices,
    authorizes=(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION),
)
