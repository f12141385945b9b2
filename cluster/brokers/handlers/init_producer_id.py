"""InitProducerId (API key 22), versions 0-5.

Assigns an idempotent producer a new id with epoch 0, and waits if a new block of ids has to be
fetched from the registry. Not supported: transactional ids (UNSUPPORTED_VERSION, which no client
retries; docs/decisions/051-transactional-ids.md).
v2 flexible; v3 current id and epoch (a producer that asks for a higher epoch gets a new id
instead); v5 TRANSACTION_ABORTABLE may be returned (KIP-890), which only transactions need.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import (
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    may,
)
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import DataServices
from cluster.model.errors import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

API: Final = Api(ApiKey.INIT_PRODUCER_ID, 0, 5)


def handle(
    request: InitProducerIdRequest, context: RequestContext, services: DataServices
) -> InitProducerIdResponse | NotYet:
    if not _may(request, context, services):
        return _refused(
            ErrorCode.cluster_authorization_failed
            if request.transactional_id is None
            else ErrorCode.transactional_id_authorization_failed
        )
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.invalid_request)
    if request.transactional_id is not None:
        code = (
            ErrorCode.unsupported_version if request.transactional_id else ErrorCode.invalid_request
        )
        return _refused(code)

    def on_done(producer_id: int | None) -> None:
        context.answer(
            _refused(ErrorCode.coordinator_not_available)
            if producer_id is None
            else InitProducerIdResponse(
                throttle_time=timedelta(0),
                error_code=ErrorCode.none,
                producer_id=producer_id,
                producer_epoch=0,
            )
        )

    services.producer_ids.next_id(on_done)
    return PARKED


def _may(request: InitProducerIdRequest, context: RequestContext, services: DataServices) -> bool:
    """Whether the client may write idempotently: it may if it can write to any topic (KIP-679)."""
    if request.transactional_id is not None:
        return may(services, context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    authorizer = services.authorizer
    return (
        authorizer is None
        or may(services, context, IDEMPOTENT_WRITE, is_audited=False)
        or authorizer.allows_some(context.user, context.host, *WRITE_TOPIC)
    )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time=timedelta(0), error_code=code, producer_epoch=-1)


HANDLER: Final = adapted(
    API, handle, DataServices, authorizes=(WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC)
)
