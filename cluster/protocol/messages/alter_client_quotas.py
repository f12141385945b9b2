"""AlterClientQuotas messages, versions 0 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, NULL_STRING, varint

_pack_do = Struct(">d?").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_o = Struct(">?").pack
_unpack_do = Struct(">d?").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from


@dataclass(slots=True, kw_only=True)
class AlteredEntity:
    """Part of AlterClientQuotas."""

    entity_type: str
    entity_name: str | None


@dataclass(slots=True, kw_only=True)
class QuotaOperation:
    """Part of AlterClientQuotas."""

    key: str
    value: float
    remove: bool


@dataclass(slots=True, kw_only=True)
class QuotaAlteration:
    """Part of AlterClientQuotas."""

    entity: tuple[AlteredEntity, ...]
    ops: tuple[QuotaOperation, ...]


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """AlterClientQuotas request, versions 0-1."""

    entries: tuple[QuotaAlteration, ...]
    validate_only: bool


@dataclass(slots=True, kw_only=True)
class QuotaAlterationResult:
    """Part of AlterClientQuotas."""

    error_code: ErrorCode
    error_message: str | None
    entity: tuple[AlteredEntity, ...]


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """AlterClientQuotas response, versions 0-1."""

    throttle_time: timedelta
    entries: tuple[QuotaAlterationResult, ...]


def _read_altered_entity(buffer: bytes, position: int, end: int) -> tuple[AlteredEntity, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("entity_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    entity_type = buffer[start:position].decode()
    entity_name: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        entity_name = buffer[start:position].decode()
    elif size == -1:
        entity_name = None
    else:
        raise PeerError("entity_name is null or has a negative length")
    return AlteredEntity(entity_type=entity_type, entity_name=entity_name), position


def _read_quota_operation(buffer: bytes, position: int, end: int) -> tuple[QuotaOperation, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("key is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    key = buffer[start:position].decode()
    value, remove = _unpack_do(buffer, position)
    position += 9
    return QuotaOperation(key=key, value=value, remove=remove), position


def _read_quota_alteration(buffer: bytes, position: int, end: int) -> tuple[QuotaAlteration, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("entity is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entity_list: list[AlteredEntity] = []
    for _ in range(size):
        entity_item, position = _read_altered_entity(buffer, position, end)
        entity_list.append(entity_item)
    entity = tuple(entity_list)
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("ops is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    ops_list: list[QuotaOperation] = []
    for _ in range(size):
        ops_item, position = _read_quota_operation(buffer, position, end)
        ops_list.append(ops_item)
    ops = tuple(ops_list)
    return QuotaAlteration(entity=entity, ops=ops), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterClientQuotasRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("entries is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entries_list: list[QuotaAlteration] = []
    for _ in range(size):
        entries_item, position = _read_quota_alteration(buffer, position, end)
        entries_list.append(entries_item)
    entries = tuple(entries_list)
    (validate_only,) = _unpack_o(buffer, position)
    position += 1
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only), position


def _read_altered_entity_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AlteredEntity, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("entity_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    entity_type = buffer[start:position].decode()
    entity_name: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        entity_name = buffer[start:position].decode()
    else:
        entity_name = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlteredEntity(entity_type=entity_type, entity_name=entity_name), position


def _read_quota_operation_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[QuotaOperation, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("key is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    key = buffer[start:position].decode()
    value, remove = _unpack_do(buffer, position)
    position += 9
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return QuotaOperation(key=key, value=value, remove=remove), position


def _read_quota_alteration_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[QuotaAlteration, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("entity is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entity_list: list[AlteredEntity] = []
    for _ in range(size):
        entity_item, position = _read_altered_entity_flexible(buffer, position, end)
        entity_list.append(entity_item)
    entity = tuple(entity_list)
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("ops is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    ops_list: list[QuotaOperation] = []
    for _ in range(size):
        ops_item, position = _read_quota_operation_flexible(buffer, position, end)
        ops_list.append(ops_item)
    ops = tuple(ops_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return QuotaAlteration(entity=entity, ops=ops), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterClientQuotasRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("entries is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entries_list: list[QuotaAlteration] = []
    for _ in range(size):
        entries_item, position = _read_quota_alteration_flexible(buffer, position, end)
        entries_list.append(entries_item)
    entries = tuple(entries_list)
    (validate_only,) = _unpack_o(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterClientQuotasRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 1:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_altered_entity(out: bytearray, message: AlteredEntity) -> None:
    encoded = message.entity_type.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.entity_name is None:
        out += NULL_STRING
    else:
        encoded = message.entity_name.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_quota_alteration_result(out: bytearray, message: QuotaAlterationResult) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_i(len(message.entity))
    for entity_item in message.entity:
        _write_altered_entity(out, entity_item)


def _write_response_legacy(
    out: bytearray, message: AlterClientQuotasResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.entries))
    for entries_item in message.entries:
        _write_quota_alteration_result(out, entries_item)


def _write_altered_entity_flexible(out: bytearray, message: AlteredEntity) -> None:
    encoded = message.entity_type.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.entity_name is None:
        out += NULL_COMPACT
    else:
        encoded = message.entity_name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_quota_alteration_result_flexible(out: bytearray, message: QuotaAlterationResult) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.entity) + 1)
    for entity_item in message.entity:
        _write_altered_entity_flexible(out, entity_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: AlterClientQuotasResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.entries) + 1)
    for entries_item in message.entries:
        _write_quota_alteration_result_flexible(out, entries_item)
    out += NO_TAGS


def write_response(out: bytearray, message: AlterClientQuotasResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_quota_operation(out: bytearray, message: QuotaOperation) -> None:
    encoded = message.key.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_do(message.value, message.remove)


def _write_quota_alteration(out: bytearray, message: QuotaAlteration) -> None:
    out += _pack_i(len(message.entity))
    for entity_item in message.entity:
        _write_altered_entity(out, entity_item)
    out += _pack_i(len(message.ops))
    for ops_item in message.ops:
        _write_quota_operation(out, ops_item)


def _write_request_legacy(out: bytearray, message: AlterClientQuotasRequest, version: int) -> None:
    out += _pack_i(len(message.entries))
    for entries_item in message.entries:
        _write_quota_alteration(out, entries_item)
    out += _pack_o(message.validate_only)


def _write_quota_operation_flexible(out: bytearray, message: QuotaOperation) -> None:
    encoded = message.key.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_do(message.value, message.remove)
    out += NO_TAGS


def _write_quota_alteration_flexible(out: bytearray, message: QuotaAlteration) -> None:
    out += varint(len(message.entity) + 1)
    for entity_item in message.entity:
        _write_altered_entity_flexible(out, entity_item)
    out += varint(len(message.ops) + 1)
    for ops_item in message.ops:
        _write_quota_operation_flexible(out, ops_item)
    out += NO_TAGS


def _write_request_flexible(
    out: bytearray, message: AlterClientQuotasRequest, version: int
) -> None:
    out += varint(len(message.entries) + 1)
    for entries_item in message.entries:
        _write_quota_alteration_flexible(out, entries_item)
    out += _pack_o(message.validate_only)
    out += NO_TAGS


def write_request(out: bytearray, message: AlterClientQuotasRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_quota_alteration_result(
    buffer: bytes, position: int, end: int
) -> tuple[QuotaAlterationResult, int]:
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
        raise PeerError("entity is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entity_list: list[AlteredEntity] = []
    for _ in range(size):
        entity_item, position = _read_altered_entity(buffer, position, end)
        entity_list.append(entity_item)
    entity = tuple(entity_list)
    return QuotaAlterationResult(
        error_code=ErrorCode(error_code), error_message=error_message, entity=entity
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterClientQuotasResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("entries is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entries_list: list[QuotaAlterationResult] = []
    for _ in range(size):
        entries_item, position = _read_quota_alteration_result(buffer, position, end)
        entries_list.append(entries_item)
    entries = tuple(entries_list)
    return AlterClientQuotasResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), entries=entries
    ), position


def _read_quota_alteration_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[QuotaAlterationResult, int]:
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
        raise PeerError("entity is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entity_list: list[AlteredEntity] = []
    for _ in range(size):
        entity_item, position = _read_altered_entity_flexible(buffer, position, end)
        entity_list.append(entity_item)
    entity = tuple(entity_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return QuotaAlterationResult(
        error_code=ErrorCode(error_code), error_message=error_message, entity=entity
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterClientQuotasResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("entries is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entries_list: list[QuotaAlterationResult] = []
    for _ in range(size):
        entries_item, position = _read_quota_alteration_result_flexible(buffer, position, end)
        entries_list.append(entries_item)
    entries = tuple(entries_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterClientQuotasResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), entries=entries
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterClientQuotasResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 1:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
