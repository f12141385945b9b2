"""SaslAuthenticate messages, versions 0 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import NO_TIME, read_length, skip_tags, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, NULL_STRING, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_q = Struct(">q").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_q = Struct(">q").unpack_from


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """SaslAuthenticate request, versions 0-2."""

    auth_bytes: bytes


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """SaslAuthenticate response, versions 0-2."""

    error_code: ErrorCode
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: timedelta = NO_TIME


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslAuthenticateRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("auth_bytes is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    auth_bytes = buffer[start:position]
    return SaslAuthenticateRequest(auth_bytes=auth_bytes), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslAuthenticateRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("auth_bytes is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    auth_bytes = buffer[start:position]
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return SaslAuthenticateRequest(auth_bytes=auth_bytes), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslAuthenticateRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_response_legacy(out: bytearray, message: SaslAuthenticateResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_i(len(message.auth_bytes))
    out += message.auth_bytes
    if version >= 1:
        out += _pack_q(message.session_lifetime // MILLISECOND)


def _write_response_flexible(
    out: bytearray, message: SaslAuthenticateResponse, version: int
) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.auth_bytes) + 1)
    out += message.auth_bytes
    out += _pack_q(message.session_lifetime // MILLISECOND)
    out += NO_TAGS


def write_response(out: bytearray, message: SaslAuthenticateResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: SaslAuthenticateRequest, version: int) -> None:
    out += _pack_i(len(message.auth_bytes))
    out += message.auth_bytes


def _write_request_flexible(out: bytearray, message: SaslAuthenticateRequest, version: int) -> None:
    out += varint(len(message.auth_bytes) + 1)
    out += message.auth_bytes
    out += NO_TAGS


def write_request(out: bytearray, message: SaslAuthenticateRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslAuthenticateResponse, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    error_message: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        error_message = buffer[start:position].decode()
    elif size == -1:
        error_message = None
    else:
        raise PeerError("error_message is null or has a negative length")
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("auth_bytes is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    auth_bytes = buffer[start:position]
    session_lifetime: timedelta = NO_TIME
    if version >= 1:
        (session_lifetime_raw,) = _unpack_q(buffer, position)
        position += 8
        session_lifetime = timedelta(0, 0, 0, session_lifetime_raw)
    return SaslAuthenticateResponse(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        auth_bytes=auth_bytes,
        session_lifetime=session_lifetime,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslAuthenticateResponse, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("auth_bytes is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    auth_bytes = buffer[start:position]
    (session_lifetime,) = _unpack_q(buffer, position)
    position += 8
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return SaslAuthenticateResponse(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        auth_bytes=auth_bytes,
        session_lifetime=timedelta(0, 0, 0, session_lifetime),
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslAuthenticateResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
