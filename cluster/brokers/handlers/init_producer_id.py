"""InitProducerId (API key 22), versions 0-5.

Assigns an idempotent producer a new id with epoch 0; a transactional one continues with the id of
its transactional id in a higher epoch, which fences every earlier producer. It waits if a new block
of ids has to be fetched from the registry, and while a transaction ends.
v2 flexible; v3 current id and epoch (KIP-360; an idempotent producer that asks for a higher epoch
gets a new id instead); v4 PRODUCER_FENCED; v5 TRANSACTION_ABORTABLE may be returned (KIP-890).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import (
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    may,
)
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted, now_or_later
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.handlers.transaction_requests import client_of, with_producer_id
from cluster.config.broker import TRANSACTION_MAX_TIMEOUT_MS
from cluster.coordinator.transactions.requests import InitProducer, ProducerIdentity, ProducerReply
from cluster.model.errors import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

API: Final = Api(ApiKey.INIT_PRODUCER_ID, 0, 5)

_FIRST_WITH_FENCED: Final = 4


def handle(
    request: InitProducerIdRequest, context: RequestContext, services: TransactionServices
) -> "InitProducerIdResponse | NotYet":
    transactional_id = request.transactional_id
    if not _may(request, context, services):
        return _refused(
            ErrorCode.cluster_authorization_failed
            if transactional_id is None
            else ErrorCode.transactional_id_authorization_failed
        )
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.invalid_request)
    if transactional_id is None:
        return now_or_later(
            lambda respond: services.producer_ids.next_id(
                lambda found: respond(_with_new_id(found))
            ),
            context,
        )
    timeout_ms = request.transaction_timeout // timedelta(milliseconds=1)
    if not transactional_id:
        return _refused(ErrorCode.invalid_request)
    if not 0 < timeout_ms <= services.settings[TRANSACTION_MAX_TIMEOUT_MS]:
        return _refused(ErrorCode.invalid_transaction_timeout)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)

    def response_of(reply: ProducerReply) -> InitProducerIdResponse:
        error = reply.error
        if error is ErrorCode.producer_fenced and context.version < _FIRST_WITH_FENCED:
            error = ErrorCode.invalid_producer_epoch
        if error is not ErrorCode.none:
            return _refused(error)
        return _assigned(*reply.producer)

    return now_or_later(
        lambda respond: with_producer_id(
            transactional_id,
            lambda fresh: InitProducer(
                transactional_id, timeout_ms, expected, fresh, client_of(context)
            ),
            lambda reply: respond(response_of(reply)),
            services,
        ),
        context,
    )


def _may(
    request: InitProducerIdRequest, context: RequestContext, services: TransactionServices
) -> bool:
    """Whether the client may write idempotently: it may if it can write to any topic (KIP-679)."""
    if request.transactional_id is not None:
        return may(services, context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    authorizer = services.authorizer
    return (
        authorizer is None
        or may(services, context, IDEMPOTENT_WRITE, is_audited=False)
        or authorizer.allows_some(context.user, context.host, *WRITE_TOPIC)
    )


def _with_new_id(producer_id: int | None) -> InitProducerIdResponse:
    if producer_id is None:
        return _refused(ErrorCode.coordinator_not_available)
    return _assigned(producer_id, 0)


def _assigned(producer_id: int, epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time=timedelta(0), error_code=code, producer_epoch=-1)


HANDLER: Final = adapted(
    API,
    handle,
    TransactionServices,
    authorizes=(WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC),
)
