"""AddOffsetsToTxn (API key 25), versions 0-4.

The committed offsets of a group become part of a transaction: its partition of `__consumer_offsets`
is added.
v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE may be returned (KIP-890).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import READ_GROUP, WRITE_TRANSACTIONAL_ID, check
from cluster.brokers.handlers.group_requests import answered
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.handlers.transaction_requests import client_of, fenced_as
from cluster.coordinator.transactions.requests import AddPartitions, ProducerIdentity
from cluster.model.errors import ErrorCode, Refused
from cluster.model.kept_names import kept_name
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

API: Final = Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4)


def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext, services: TransactionServices
) -> AddOffsetsToTxnResponse | NotYet:
    try:
        check(services, context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
        check(services, context, READ_GROUP, request.group_id)
        if not request.transactional_id:
            raise Refused(ErrorCode.invalid_request)
        partition = services.groups.partition_of(request.group_id)
        if partition is None:
            raise Refused(ErrorCode.coordinator_not_available)
        led = services.transactions.find(request.transactional_id)
    except Refused as refused:
        return _response(refused.code, context)
    added = AddPartitions(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        frozenset({partition}),
        client_version=0,
        client=client_of(context),
        group=kept_name(request.group_id),
    )
    return answered(context, led, added, lambda code: _response(code, context))


def _response(code: ErrorCode, context: RequestContext) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(
        throttle_time=timedelta(0), error_code=fenced_as(code, context.version)
    )


HANDLER: Final = adapted(
    API, handle, TransactionServices, authorizes=(WRITE_TRANSACTIONAL_ID, READ_GROUP)
)
