"""EndTxn (API key 26), versions 0-5.

Commits or aborts a transaction. The answer is sent when the outcome is stored; markers are written
to the partitions afterwards.
v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE may be returned; v5 each end bumps the
epoch, which the answer contains (KIP-890).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import WRITE_TRANSACTIONAL_ID, check
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted, now_or_later
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.handlers.transaction_requests import client_of, fenced_as, with_producer_id
from cluster.coordinator.transactions.requests import (
    EndTransaction,
    ProducerIdentity,
    ProducerReply,
)
from cluster.coordinator.transactions.transaction import EPOCH_BUMPED_AT_END
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import EndTxnRequest, EndTxnResponse

API: Final = Api(ApiKey.END_TXN, 0, 5)

_FIRST_WITH_EPOCH: Final = 5


def handle(
    request: EndTxnRequest, context: RequestContext, services: TransactionServices
) -> EndTxnResponse | NotYet:
    transactional_id = request.transactional_id
    try:
        check(services, context, WRITE_TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise Refused(ErrorCode.invalid_request)
    except Refused as refused:
        return _response(ProducerReply(refused.code), context)
    client_version = EPOCH_BUMPED_AT_END if context.version >= _FIRST_WITH_EPOCH else 0
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    return now_or_later(
        lambda respond: with_producer_id(
            transactional_id,
            lambda fresh: EndTransaction(
                transactional_id,
                producer,
                request.committed,
                client_version,
                fresh,
                client_of(context),
            ),
            lambda reply: respond(_response(reply, context)),
            services,
        ),
        context,
    )


def _response(reply: ProducerReply, context: RequestContext) -> EndTxnResponse:
    producer_id, epoch = reply.producer
    return EndTxnResponse(
        throttle_time=timedelta(0),
        error_code=fenced_as(reply.error, context.version),
        producer_id=producer_id,
        producer_epoch=epoch,
    )


HANDLER: Final = adapted(API, handle, TransactionServices, authorizes=(WRITE_TRANSACTIONAL_ID,))
