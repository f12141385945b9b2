"""DescribeTransactions (API key 65), version 0 (KIP-664)."""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import (
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    allowed_among,
    check,
)
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.transactions.numbered import numbered
from cluster.coordinator.transactions.requests import DescribeTransaction
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from cluster.protocol.reader import datetime_of

API: Final = Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0)


def handle(
    request: DescribeTransactionsRequest, context: RequestContext, services: TransactionServices
) -> DescribeTransactionsResponse:
    """The transactions that this broker coordinates, without topics that the client may not see."""
    return DescribeTransactionsResponse(
        throttle_time=timedelta(0),
        transaction_states=tuple(
            _described(each, context, services) for each in request.transactional_ids
        ),
    )


def _described(
    transactional_id: str, context: RequestContext, services: TransactionServices
) -> DescribedTransaction:
    try:
        check(services, context, DESCRIBE_TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise Refused(ErrorCode.invalid_request)
        led = services.transactions.find(transactional_id)
        found = led.ask(DescribeTransaction(transactional_id))
        if found is None:
            raise Refused(ErrorCode.transactional_id_not_found)
    except Refused as refused:
        return _transaction(transactional_id, refused.code)
    topics = numbered(found.partitions)
    allowed = allowed_among(services, context, DESCRIBE_TOPIC, [each.topic for each in topics])
    return DescribedTransaction(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout=timedelta(milliseconds=found.timeout_ms),
        transaction_start_time=datetime_of(found.start_ms),
        producer_id=found.producer.producer_id,
        producer_epoch=found.producer.epoch,
        topics=tuple(
            DescribedTransactionTopic(topic=each.topic, partitions=tuple(each.partitions))
            for each in topics
            if each.topic in allowed
        ),
    )


def _transaction(transactional_id: str, code: ErrorCode) -> DescribedTransaction:
    return DescribedTransaction(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=datetime_of(0),
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


HANDLER: Final = adapted(
    API, handle, TransactionServices, authorizes=(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC)
)
