"""DescribeClientQuotas messages, versions 0 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import (
    MILLISECOND,
    NO_TAGS,
    NULL_ARRAY,
    NULL_COMPACT,
    NULL_STRING,
    varint,
)

_pack_b = Struct(">b").pack
_pack_d = Struct(">d").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_o = Struct(">?").pack
_unpack_b = Struct(">b").unpack_from
_unpack_d = Struct(">d").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_o = Struct(">?").unpack_from


@dataclass(slots=True, kw_only=True)
class QuotaFilterComponent:
    """Part of DescribeClientQuotas."""

    entity_type: str
    match_type: int
    match: str | None


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """DescribeClientQuotas request, versions 0-1."""

    components: tuple[QuotaFilterComponent, ...]
    strict: bool


@dataclass(slots=True, kw_only=True)
class DescribedEntity:
    """Part of DescribeClientQuotas."""

    entity_type: str
    entity_name: str | None


@dataclass(slots=True, kw_only=True)
class DescribedQuota:
    """Part of DescribeClientQuotas."""

    key: str
    value: float


@dataclass(slots=True, kw_only=True)
class DescribedEntry:
    """Part of DescribeClientQuotas."""

    entity: tuple[DescribedEntity, ...]
    values: tuple[DescribedQuota, ...]


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    """DescribeClientQuotas response, versions 0-1."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    entries: tuple[DescribedEntry, ...] | None


def _read_quota_filter_component(
    buffer: bytes, position: int, end: int
) -> tuple[QuotaFilterComponent, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("entity_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    entity_type = buffer[start:position].decode()
    (match_type,) = _unpack_b(buffer, position)
    position += 1
    match: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        match = buffer[start:position].decode()
    elif size == -1:
        match = None
    else:
        raise PeerError("match is null or has a negative length")
    return QuotaFilterComponent(
        entity_type=entity_type, match_type=match_type, match=match
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClientQuotasRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("components is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    components_list: list[QuotaFilterComponent] = []
    for _ in range(size):
        components_item, position = _read_quota_filter_component(buffer, position, end)
        components_list.append(components_item)
    components = tuple(components_list)
    (strict,) = _unpack_o(buffer, position)
    position += 1
    return DescribeClientQuotasRequest(components=components, strict=strict), position


def _read_quota_filter_component_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[QuotaFilterComponent, int]:
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
    (match_type,) = _unpack_b(buffer, position)
    position += 1
    match: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        match = buffer[start:position].decode()
    else:
        match = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return QuotaFilterComponent(
        entity_type=entity_type, match_type=match_type, match=match
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClientQuotasRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("components is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    components_list: list[QuotaFilterComponent] = []
    for _ in range(size):
        components_item, position = _read_quota_filter_component_flexible(buffer, position, end)
        components_list.append(components_item)
    components = tuple(components_list)
    (strict,) = _unpack_o(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeClientQuotasRequest(components=components, strict=strict), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClientQuotasRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 1:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_described_entity(out: bytearray, message: DescribedEntity) -> None:
    encoded = message.entity_type.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.entity_name is None:
        out += NULL_STRING
    else:
        encoded = message.entity_name.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_described_quota(out: bytearray, message: DescribedQuota) -> None:
    encoded = message.key.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_d(message.value)


def _write_described_entry(out: bytearray, message: DescribedEntry) -> None:
    out += _pack_i(len(message.entity))
    for entity_item in message.entity:
        _write_described_entity(out, entity_item)
    out += _pack_i(len(message.values))
    for values_item in message.values:
        _write_described_quota(out, values_item)


def _write_response_legacy(
    out: bytearray, message: DescribeClientQuotasResponse, version: int
) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded
    if message.entries is None:
        out += NULL_ARRAY
    else:
        out += _pack_i(len(message.entries))
        for entries_item in message.entries:
            _write_described_entry(out, entries_item)


def _write_described_entity_flexible(out: bytearray, message: DescribedEntity) -> None:
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


def _write_described_quota_flexible(out: bytearray, message: DescribedQuota) -> None:
    encoded = message.key.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_d(message.value)
    out += NO_TAGS


def _write_described_entry_flexible(out: bytearray, message: DescribedEntry) -> None:
    out += varint(len(message.entity) + 1)
    for entity_item in message.entity:
        _write_described_entity_flexible(out, entity_item)
    out += varint(len(message.values) + 1)
    for values_item in message.values:
        _write_described_quota_flexible(out, values_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: DescribeClientQuotasResponse, version: int
) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if message.entries is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.entries) + 1)
        for entries_item in message.entries:
            _write_described_entry_flexible(out, entries_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeClientQuotasResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_quota_filter_component(out: bytearray, message: QuotaFilterComponent) -> None:
    encoded = message.entity_type.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_b(message.match_type)
    if message.match is None:
        out += NULL_STRING
    else:
        encoded = message.match.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_request_legacy(
    out: bytearray, message: DescribeClientQuotasRequest, version: int
) -> None:
    out += _pack_i(len(message.components))
    for components_item in message.components:
        _write_quota_filter_component(out, components_item)
    out += _pack_o(message.strict)


def _write_quota_filter_component_flexible(out: bytearray, message: QuotaFilterComponent) -> None:
    encoded = message.entity_type.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_b(message.match_type)
    if message.match is None:
        out += NULL_COMPACT
    else:
        encoded = message.match.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_request_flexible(
    out: bytearray, message: DescribeClientQuotasRequest, version: int
) -> None:
    out += varint(len(message.components) + 1)
    for components_item in message.components:
        _write_quota_filter_component_flexible(out, components_item)
    out += _pack_o(message.strict)
    out += NO_TAGS


def write_request(out: bytearray, message: DescribeClientQuotasRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_described_entity(buffer: bytes, position: int, end: int) -> tuple[DescribedEntity, int]:
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
    return DescribedEntity(entity_type=entity_type, entity_name=entity_name), position


def _read_described_quota(buffer: bytes, position: int, end: int) -> tuple[DescribedQuota, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("key is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    key = buffer[start:position].decode()
    (value,) = _unpack_d(buffer, position)
    position += 8
    return DescribedQuota(key=key, value=value), position


def _read_described_entry(buffer: bytes, position: int, end: int) -> tuple[DescribedEntry, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("entity is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    entity_list: list[DescribedEntity] = []
    for _ in range(size):
        entity_item, position = _read_described_entity(buffer, position, end)
        entity_list.append(entity_item)
    entity = tuple(entity_list)
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("values is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    values_list: list[DescribedQuota] = []
    for _ in range(size):
        values_item, position = _read_described_quota(buffer, position, end)
        values_list.append(values_item)
    values = tuple(values_list)
    return DescribedEntry(entity=entity, values=values), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClientQuotasResponse, int]:
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
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
    entries: tuple[DescribedEntry, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        entries_list: list[DescribedEntry] = []
        for _ in range(size):
            entries_item, position = _read_described_entry(buffer, position, end)
            entries_list.append(entries_item)
        entries = tuple(entries_list)
    elif size == -1:
        entries = None
    else:
        raise PeerError("entries is null or has a negative length")
    return DescribeClientQuotasResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
        entries=entries,
    ), position


def _read_described_entity_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedEntity, int]:
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
    return DescribedEntity(entity_type=entity_type, entity_name=entity_name), position


def _read_described_quota_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedQuota, int]:
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
    (value,) = _unpack_d(buffer, position)
    position += 8
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedQuota(key=key, value=value), position


def _read_described_entry_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedEntry, int]:
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
    entity_list: list[DescribedEntity] = []
    for _ in range(size):
        entity_item, position = _read_described_entity_flexible(buffer, position, end)
        entity_list.append(entity_item)
    entity = tuple(entity_list)
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("values is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    values_list: list[DescribedQuota] = []
    for _ in range(size):
        values_item, position = _read_described_quota_flexible(buffer, position, end)
        values_list.append(values_item)
    values = tuple(values_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedEntry(entity=entity, values=values), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClientQuotasResponse, int]:
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
    entries: tuple[DescribedEntry, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        entries_list: list[DescribedEntry] = []
        for _ in range(size):
            entries_item, position = _read_described_entry_flexible(buffer, position, end)
            entries_list.append(entries_item)
        entries = tuple(entries_list)
    else:
        entries = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeClientQuotasResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
        entries=entries,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClientQuotasResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 1:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
