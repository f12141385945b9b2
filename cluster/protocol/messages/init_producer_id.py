"""InitProducerId messages, versions 0 to 6.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import read_length, skip_tags, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, NULL_STRING, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ihqh = Struct(">ihqh").pack
_pack_ihqhqh = Struct(">ihqhqh").pack
_pack_iqh = Struct(">iqh").pack
_pack_iqhoo = Struct(">iqh??").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ihqh = Struct(">ihqh").unpack_from
_unpack_ihqhqh = Struct(">ihqhqh").unpack_from
_unpack_iqh = Struct(">iqh").unpack_from
_unpack_iqhoo = Struct(">iqh??").unpack_from


@dataclass(slots=True, kw_only=True)
class InitProducerIdRequest:
    """InitProducerId request, versions 0-6."""

    transactional_id: str | None
    transaction_timeout: timedelta
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False


@dataclass(slots=True, kw_only=True)
class InitProducerIdResponse:
    """InitProducerId response, versions 0-6."""

    throttle_time: timedelta
    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[InitProducerIdRequest, int]:
    transactional_id: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        transactional_id = buffer[start:position].decode()
    elif size == -1:
        transactional_id = None
    else:
        raise PeerError("transactional_id is null or has a negative length")
    (transaction_timeout,) = _unpack_i(buffer, position)
    position += 4
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=timedelta(0, 0, 0, transaction_timeout),
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[InitProducerIdRequest, int]:
    transactional_id: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        transactional_id = buffer[start:position].decode()
    else:
        transactional_id = None
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False
    if version >= 6:
        transaction_timeout, producer_id, producer_epoch, enable2_pc, keep_prepared_txn = (
            _unpack_iqhoo(buffer, position)
        )
        position += 16
    elif version >= 3:
        transaction_timeout, producer_id, producer_epoch = _unpack_iqh(buffer, position)
        position += 14
    else:
        (transaction_timeout,) = _unpack_i(buffer, position)
        position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=timedelta(0, 0, 0, transaction_timeout),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        enable2_pc=enable2_pc,
        keep_prepared_txn=keep_prepared_txn,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[InitProducerIdRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_response_legacy(out: bytearray, message: InitProducerIdResponse, version: int) -> None:
    out += _pack_ihqh(
        message.throttle_time // MILLISECOND,
        message.error_code,
        message.producer_id,
        message.producer_epoch,
    )


def _write_response_flexible(out: bytearray, message: InitProducerIdResponse, version: int) -> None:
    if version >= 6:
        out += _pack_ihqhqh(
            message.throttle_time // MILLISECOND,
            message.error_code,
            message.producer_id,
            message.producer_epoch,
            message.ongoing_txn_producer_id,
            message.ongoing_txn_producer_epoch,
        )
    else:
        out += _pack_ihqh(
            message.throttle_time // MILLISECOND,
            message.error_code,
            message.producer_id,
            message.producer_epoch,
        )
    out += NO_TAGS


def write_response(out: bytearray, message: InitProducerIdResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: InitProducerIdRequest, version: int) -> None:
    if message.transactional_id is None:
        out += NULL_STRING
    else:
        encoded = message.transactional_id.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_i(message.transaction_timeout // MILLISECOND)


def _write_request_flexible(out: bytearray, message: InitProducerIdRequest, version: int) -> None:
    if message.transactional_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.transactional_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 6:
        out += _pack_iqhoo(
            message.transaction_timeout // MILLISECOND,
            message.producer_id,
            message.producer_epoch,
            message.enable2_pc,
            message.keep_prepared_txn,
        )
    elif version >= 3:
        out += _pack_iqh(
            message.transaction_timeout // MILLISECOND, message.producer_id, message.producer_epoch
        )
    else:
        out += _pack_i(message.transaction_timeout // MILLISECOND)
    out += NO_TAGS


def write_request(out: bytearray, message: InitProducerIdRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[InitProducerIdResponse, int]:
    throttle_time, error_code, producer_id, producer_epoch = _unpack_ihqh(buffer, position)
    position += 16
    return InitProducerIdResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[InitProducerIdResponse, int]:
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
    if version >= 6:
        (
            throttle_time,
            error_code,
            producer_id,
            producer_epoch,
            ongoing_txn_producer_id,
            ongoing_txn_producer_epoch,
        ) = _unpack_ihqhqh(buffer, position)
        position += 26
    else:
        throttle_time, error_code, producer_id, producer_epoch = _unpack_ihqh(buffer, position)
        position += 16
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return InitProducerIdResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        ongoing_txn_producer_id=ongoing_txn_producer_id,
        ongoing_txn_producer_epoch=ongoing_txn_producer_epoch,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[InitProducerIdResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
