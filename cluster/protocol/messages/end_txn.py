"""EndTxn messages, versions 0 to 5.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import read_length, skip_tags, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_ih = Struct(">ih").pack
_pack_ihqh = Struct(">ihqh").pack
_pack_qho = Struct(">qh?").pack
_unpack_h = Struct(">h").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_ihqh = Struct(">ihqh").unpack_from
_unpack_qho = Struct(">qh?").unpack_from


@dataclass(slots=True, kw_only=True)
class EndTxnRequest:
    """EndTxn request, versions 0-5."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@dataclass(slots=True, kw_only=True)
class EndTxnResponse:
    """EndTxn response, versions 0-5."""

    throttle_time: timedelta
    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[EndTxnRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("transactional_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    transactional_id = buffer[start:position].decode()
    producer_id, producer_epoch, committed = _unpack_qho(buffer, position)
    position += 11
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=committed,
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[EndTxnRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("transactional_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    transactional_id = buffer[start:position].decode()
    producer_id, producer_epoch, committed = _unpack_qho(buffer, position)
    position += 11
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=committed,
    ), position


def read_request(buffer: bytes, position: int, end: int, version: int) -> tuple[EndTxnRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_response_legacy(out: bytearray, message: EndTxnResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)


def _write_response_flexible(out: bytearray, message: EndTxnResponse, version: int) -> None:
    if version >= 5:
        out += _pack_ihqh(
            message.throttle_time // MILLISECOND,
            message.error_code,
            message.producer_id,
            message.producer_epoch,
        )
    else:
        out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    out += NO_TAGS


def write_response(out: bytearray, message: EndTxnResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: EndTxnRequest, version: int) -> None:
    encoded = message.transactional_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_qho(message.producer_id, message.producer_epoch, message.committed)


def _write_request_flexible(out: bytearray, message: EndTxnRequest, version: int) -> None:
    encoded = message.transactional_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_qho(message.producer_id, message.producer_epoch, message.committed)
    out += NO_TAGS


def write_request(out: bytearray, message: EndTxnRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[EndTxnResponse, int]:
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    return EndTxnResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), error_code=ErrorCode(error_code)
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[EndTxnResponse, int]:
    producer_id: int = -1
    producer_epoch: int = -1
    if version >= 5:
        throttle_time, error_code, producer_id, producer_epoch = _unpack_ihqh(buffer, position)
        position += 16
    else:
        throttle_time, error_code = _unpack_ih(buffer, position)
        position += 6
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return EndTxnResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[EndTxnResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
