"""PushTelemetry (API key 72), version 0.

Answers immediately. The metrics are OTLP, compressed as the client chose (KIP-714). Errors:
INVALID_REQUEST without a client instance id and after a terminating push, THROTTLING_QUOTA_EXCEEDED
for an early push, UNKNOWN_SUBSCRIPTION_ID when the subscriptions have changed,
UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD for metrics that cannot be read.
"""

from typing import Final

from cluster.brokers.client_metrics.instances import Push
from cluster.brokers.handlers.get_telemetry_subscriptions import facts_of
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, Unchecked, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import PushTelemetryRequest, PushTelemetryResponse

API: Final = Api(ApiKey.PUSH_TELEMETRY, 0, 0)


def handle(
    request: PushTelemetryRequest, context: RequestContext, services: AdminServices
) -> PushTelemetryResponse:
    """Take the metrics of a client."""
    code = ErrorCode.none
    push = Push(
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        len(request.metrics),
    )
    try:
        services.client_metrics.on_push(
            push, facts_of(context), context.user, bytes(request.metrics)
        )
    except Refused as refused:
        code = refused.code
    return PushTelemetryResponse(throttle_time=NO_TIME, error_code=code)


HANDLER: Final = adapted(
    API,
    handle,
    AdminServices,
    authorizes=Unchecked("as in Kafka: a client sends what it was asked for"),
)
