"""ExpireDelegationToken messages, versions 1 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import read_length, skip_tags, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, timestamp_of

_pack_hqi = Struct(">hqi").pack
_unpack_i = Struct(">i").unpack_from
_unpack_q = Struct(">q").unpack_from


@dataclass(slots=True, kw_only=True)
class ExpireDelegationTokenRequest:
    """ExpireDelegationToken request, versions 1-2."""

    hmac: bytes
    expiry_time_period: timedelta


@dataclass(slots=True, kw_only=True)
class ExpireDelegationTokenResponse:
    """ExpireDelegationToken response, versions 1-2."""

    error_code: ErrorCode
    expiry_timestamp: datetime | None
    throttle_time: timedelta


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ExpireDelegationTokenRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("hmac is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    hmac = buffer[start:position]
    (expiry_time_period,) = _unpack_q(buffer, position)
    position += 8
    return ExpireDelegationTokenRequest(
        hmac=hmac, expiry_time_period=timedelta(0, 0, 0, expiry_time_period)
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ExpireDelegationTokenRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("hmac is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    hmac = buffer[start:position]
    (expiry_time_period,) = _unpack_q(buffer, position)
    position += 8
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ExpireDelegationTokenRequest(
        hmac=hmac, expiry_time_period=timedelta(0, 0, 0, expiry_time_period)
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ExpireDelegationTokenRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_response_legacy(
    out: bytearray, message: ExpireDelegationTokenResponse, version: int
) -> None:
    out += _pack_hqi(
        message.error_code,
        timestamp_of(message.expiry_timestamp),
        message.throttle_time // MILLISECOND,
    )


def _write_response_flexible(
    out: bytearray, message: ExpireDelegationTokenResponse, version: int
) -> None:
    out += _pack_hqi(
        message.error_code,
        timestamp_of(message.expiry_timestamp),
        message.throttle_time // MILLISECOND,
    )
    out += NO_TAGS


def write_response(out: bytearray, message: ExpireDelegationTokenResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
