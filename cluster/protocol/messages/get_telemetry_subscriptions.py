"""GetTelemetrySubscriptions messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.protocol.reader import skip_tags, uuid_of
from cluster.protocol.writer import MILLISECOND, NO_TAGS, uuid_bytes, varint

_pack_ihsi = Struct(">ih16si").pack
_pack_iio = Struct(">ii?").pack
_unpack_s = Struct(">16s").unpack_from


@dataclass(slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    """GetTelemetrySubscriptions request, versions 0-0."""

    client_instance_id: UUID | None


@dataclass(slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    """GetTelemetrySubscriptions response, versions 0-0."""

    throttle_time: timedelta
    error_code: ErrorCode
    client_instance_id: UUID | None
    subscription_id: int
    accepted_compression_types: tuple[int, ...] = ()
    push_interval: timedelta
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: tuple[str, ...] = ()


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[GetTelemetrySubscriptionsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (client_instance_id,) = _unpack_s(buffer, position)
    position += 16
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return GetTelemetrySubscriptionsRequest(
        client_instance_id=uuid_of(client_instance_id)
    ), position


def write_response(
    out: bytearray, message: GetTelemetrySubscriptionsResponse, version: int
) -> None:
    """Append the message as this version has it."""
    out += _pack_ihsi(
        message.throttle_time // MILLISECOND,
        message.error_code,
        uuid_bytes(message.client_instance_id),
        message.subscription_id,
    )
    out += varint(len(message.accepted_compression_types) + 1)
    out += pack(f">{len(message.accepted_compression_types)}b", *message.accepted_compression_types)
    out += _pack_iio(
        message.push_interval // MILLISECOND, message.telemetry_max_bytes, message.delta_temporality
    )
    out += varint(len(message.requested_metrics) + 1)
    for requested_metrics_item in message.requested_metrics:
        encoded = requested_metrics_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS
