"""GetTelemetrySubscriptions (API key 71), version 0.

Answers immediately with what the client is asked to push, which may be nothing, and its client
instance id (KIP-714). THROTTLING_QUOTA_EXCEEDED if it asks before its next push is due.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, Unchecked, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode, Refused
from cluster.model.kept_names import kept_name
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from cluster.records.batch import Compression

API: Final = Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0)

ACCEPTED: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""The compressions that clients may use, the preferred one first."""


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext, services: AdminServices
) -> GetTelemetrySubscriptionsResponse:
    """The client's subscription."""
    metrics = services.client_metrics
    try:
        client_instance_id, wanted = metrics.on_get(request.client_instance_id, facts_of(context))
    except Refused as refused:
        return GetTelemetrySubscriptionsResponse(
            throttle_time=NO_TIME,
            error_code=refused.code,
            client_instance_id=None,
            subscription_id=0,
            push_interval=timedelta(0),
            telemetry_max_bytes=0,
            delta_temporality=False,
        )
    return GetTelemetrySubscriptionsResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        client_instance_id=client_instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=ACCEPTED,
        push_interval=timedelta(milliseconds=wanted.interval_ms),
        telemetry_max_bytes=metrics.max_bytes,
        delta_temporality=True,
        requested_metrics=wanted.metrics,
    )


def facts_of(context: RequestContext) -> dict[str, str]:
    """A client by the keys of `match`, except for its instance id."""
    name, version = context.channel.software
    return {
        "client_id": kept_name(context.client_id or ""),
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": context.host,
        "client_source_port": context.channel.peer.rpartition(":")[2],
    }


HANDLER: Final = adapted(
    API,
    handle,
    AdminServices,
    authorizes=Unchecked("as in Kafka: a client is told only what is asked of itself"),
)
