"""UnregisterBroker messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.protocol.reader import read_length, skip_tags, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, varint

_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class UnregisterBrokerRequest:
    """UnregisterBroker request, versions 0-0."""

    broker_id: int


@dataclass(slots=True, kw_only=True)
class UnregisterBrokerResponse:
    """UnregisterBroker response, versions 0-0."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[UnregisterBrokerRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (broker_id,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return UnregisterBrokerRequest(broker_id=broker_id), position


def write_response(out: bytearray, message: UnregisterBrokerResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def write_request(out: bytearray, message: UnregisterBrokerRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_i(message.broker_id)
    out += NO_TAGS


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[UnregisterBrokerResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    error_message: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        error_message = buffer[start:position].decode()
    else:
        error_message = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return UnregisterBrokerResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
    ), position
