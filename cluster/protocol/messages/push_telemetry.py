"""PushTelemetry messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import read_length, skip_tags, truncated, uuid_of
from cluster.protocol.writer import MILLISECOND, NO_TAGS

_pack_ih = Struct(">ih").pack
_unpack_siob = Struct(">16si?b").unpack_from


@dataclass(slots=True, kw_only=True)
class PushTelemetryRequest:
    """PushTelemetry request, versions 0-0."""

    client_instance_id: UUID | None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes


@dataclass(slots=True, kw_only=True)
class PushTelemetryResponse:
    """PushTelemetry response, versions 0-0."""

    throttle_time: timedelta
    error_code: ErrorCode


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[PushTelemetryRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    client_instance_id, subscription_id, terminating, compression_type = _unpack_siob(
        buffer, position
    )
    position += 22
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("metrics is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    metrics = buffer[start:position]
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return PushTelemetryRequest(
        client_instance_id=uuid_of(client_instance_id),
        subscription_id=subscription_id,
        terminating=terminating,
        compression_type=compression_type,
        metrics=metrics,
    ), position


def write_response(out: bytearray, message: PushTelemetryResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    out += NO_TAGS
