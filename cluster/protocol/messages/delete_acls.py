"""DeleteAcls messages, versions 1 to 3.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, NULL_STRING, varint

_pack_b = Struct(">b").pack
_pack_bb = Struct(">bb").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_unpack_b = Struct(">b").unpack_from
_unpack_bb = Struct(">bb").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class DeleteAclsFilter:
    """Part of DeleteAcls."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@dataclass(slots=True, kw_only=True)
class DeleteAclsRequest:
    """DeleteAcls request, versions 1-3."""

    filters: tuple[DeleteAclsFilter, ...]


@dataclass(slots=True, kw_only=True)
class DeleteAclsMatchingAcl:
    """Part of DeleteAcls."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int = 3
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(slots=True, kw_only=True)
class DeleteAclsFilterResult:
    """Part of DeleteAcls."""

    error_code: ErrorCode
    error_message: str | None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]


@dataclass(slots=True, kw_only=True)
class DeleteAclsResponse:
    """DeleteAcls response, versions 1-3."""

    throttle_time: timedelta
    filter_results: tuple[DeleteAclsFilterResult, ...]


def _read_delete_acls_filter(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteAclsFilter, int]:
    (resource_type_filter,) = _unpack_b(buffer, position)
    position += 1
    resource_name_filter: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        resource_name_filter = buffer[start:position].decode()
    elif size == -1:
        resource_name_filter = None
    else:
        raise PeerError("resource_name_filter is null or has a negative length")
    (pattern_type_filter,) = _unpack_b(buffer, position)
    position += 1
    principal_filter: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        principal_filter = buffer[start:position].decode()
    elif size == -1:
        principal_filter = None
    else:
        raise PeerError("principal_filter is null or has a negative length")
    host_filter: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        host_filter = buffer[start:position].decode()
    elif size == -1:
        host_filter = None
    else:
        raise PeerError("host_filter is null or has a negative length")
    operation, permission_type = _unpack_bb(buffer, position)
    position += 2
    return DeleteAclsFilter(
        resource_type_filter=resource_type_filter,
        resource_name_filter=resource_name_filter,
        pattern_type_filter=pattern_type_filter,
        principal_filter=principal_filter,
        host_filter=host_filter,
        operation=operation,
        permission_type=permission_type,
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteAclsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("filters is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    filters_list: list[DeleteAclsFilter] = []
    for _ in range(size):
        filters_item, position = _read_delete_acls_filter(buffer, position, end)
        filters_list.append(filters_item)
    filters = tuple(filters_list)
    return DeleteAclsRequest(filters=filters), position


def _read_delete_acls_filter_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteAclsFilter, int]:
    (resource_type_filter,) = _unpack_b(buffer, position)
    position += 1
    resource_name_filter: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        resource_name_filter = buffer[start:position].decode()
    else:
        resource_name_filter = None
    (pattern_type_filter,) = _unpack_b(buffer, position)
    position += 1
    principal_filter: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        principal_filter = buffer[start:position].decode()
    else:
        principal_filter = None
    host_filter: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        host_filter = buffer[start:position].decode()
    else:
        host_filter = None
    operation, permission_type = _unpack_bb(buffer, position)
    position += 2
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteAclsFilter(
        resource_type_filter=resource_type_filter,
        resource_name_filter=resource_name_filter,
        pattern_type_filter=pattern_type_filter,
        principal_filter=principal_filter,
        host_filter=host_filter,
        operation=operation,
        permission_type=permission_type,
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteAclsRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("filters is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    filters_list: list[DeleteAclsFilter] = []
    for _ in range(size):
        filters_item, position = _read_delete_acls_filter_flexible(buffer, position, end)
        filters_list.append(filters_item)
    filters = tuple(filters_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteAclsRequest(filters=filters), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteAclsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_delete_acls_matching_acl(out: bytearray, message: DeleteAclsMatchingAcl) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_b(message.pattern_type)
    encoded = message.principal.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.host.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_bb(message.operation, message.permission_type)


def _write_delete_acls_filter_result(out: bytearray, message: DeleteAclsFilterResult) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_i(len(message.matching_acls))
    for matching_acls_item in message.matching_acls:
        _write_delete_acls_matching_acl(out, matching_acls_item)


def _write_response_legacy(out: bytearray, message: DeleteAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.filter_results))
    for filter_results_item in message.filter_results:
        _write_delete_acls_filter_result(out, filter_results_item)


def _write_delete_acls_matching_acl_flexible(
    out: bytearray, message: DeleteAclsMatchingAcl
) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_b(message.pattern_type)
    encoded = message.principal.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_bb(message.operation, message.permission_type)
    out += NO_TAGS


def _write_delete_acls_filter_result_flexible(
    out: bytearray, message: DeleteAclsFilterResult
) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.matching_acls) + 1)
    for matching_acls_item in message.matching_acls:
        _write_delete_acls_matching_acl_flexible(out, matching_acls_item)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: DeleteAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.filter_results) + 1)
    for filter_results_item in message.filter_results:
        _write_delete_acls_filter_result_flexible(out, filter_results_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DeleteAclsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_delete_acls_filter(out: bytearray, message: DeleteAclsFilter) -> None:
    out += _pack_b(message.resource_type_filter)
    if message.resource_name_filter is None:
        out += NULL_STRING
    else:
        encoded = message.resource_name_filter.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_b(message.pattern_type_filter)
    if message.principal_filter is None:
        out += NULL_STRING
    else:
        encoded = message.principal_filter.encode()
        out += _pack_h(len(encoded))
        out += encoded
    if message.host_filter is None:
        out += NULL_STRING
    else:
        encoded = message.host_filter.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_bb(message.operation, message.permission_type)


def _write_request_legacy(out: bytearray, message: DeleteAclsRequest, version: int) -> None:
    out += _pack_i(len(message.filters))
    for filters_item in message.filters:
        _write_delete_acls_filter(out, filters_item)


def _write_delete_acls_filter_flexible(out: bytearray, message: DeleteAclsFilter) -> None:
    out += _pack_b(message.resource_type_filter)
    if message.resource_name_filter is None:
        out += NULL_COMPACT
    else:
        encoded = message.resource_name_filter.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_b(message.pattern_type_filter)
    if message.principal_filter is None:
        out += NULL_COMPACT
    else:
        encoded = message.principal_filter.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if message.host_filter is None:
        out += NULL_COMPACT
    else:
        encoded = message.host_filter.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_bb(message.operation, message.permission_type)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: DeleteAclsRequest, version: int) -> None:
    out += varint(len(message.filters) + 1)
    for filters_item in message.filters:
        _write_delete_acls_filter_flexible(out, filters_item)
    out += NO_TAGS


def write_request(out: bytearray, message: DeleteAclsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_delete_acls_matching_acl(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteAclsMatchingAcl, int]:
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
    (resource_type,) = _unpack_b(buffer, position)
    position += 1
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("resource_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    resource_name = buffer[start:position].decode()
    (pattern_type,) = _unpack_b(buffer, position)
    position += 1
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("principal is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    host = buffer[start:position].decode()
    operation, permission_type = _unpack_bb(buffer, position)
    position += 2
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    ), position


def _read_delete_acls_filter_result(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteAclsFilterResult, int]:
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
        raise PeerError("matching_acls is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    matching_acls_list: list[DeleteAclsMatchingAcl] = []
    for _ in range(size):
        matching_acls_item, position = _read_delete_acls_matching_acl(buffer, position, end)
        matching_acls_list.append(matching_acls_item)
    matching_acls = tuple(matching_acls_list)
    return DeleteAclsFilterResult(
        error_code=ErrorCode(error_code), error_message=error_message, matching_acls=matching_acls
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteAclsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("filter_results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    filter_results_list: list[DeleteAclsFilterResult] = []
    for _ in range(size):
        filter_results_item, position = _read_delete_acls_filter_result(buffer, position, end)
        filter_results_list.append(filter_results_item)
    filter_results = tuple(filter_results_list)
    return DeleteAclsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), filter_results=filter_results
    ), position


def _read_delete_acls_matching_acl_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteAclsMatchingAcl, int]:
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
    (resource_type,) = _unpack_b(buffer, position)
    position += 1
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("resource_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    resource_name = buffer[start:position].decode()
    (pattern_type,) = _unpack_b(buffer, position)
    position += 1
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("principal is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    host = buffer[start:position].decode()
    operation, permission_type = _unpack_bb(buffer, position)
    position += 2
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    ), position


def _read_delete_acls_filter_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeleteAclsFilterResult, int]:
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
        raise PeerError("matching_acls is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    matching_acls_list: list[DeleteAclsMatchingAcl] = []
    for _ in range(size):
        matching_acls_item, position = _read_delete_acls_matching_acl_flexible(
            buffer, position, end
        )
        matching_acls_list.append(matching_acls_item)
    matching_acls = tuple(matching_acls_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteAclsFilterResult(
        error_code=ErrorCode(error_code), error_message=error_message, matching_acls=matching_acls
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteAclsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("filter_results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    filter_results_list: list[DeleteAclsFilterResult] = []
    for _ in range(size):
        filter_results_item, position = _read_delete_acls_filter_result_flexible(
            buffer, position, end
        )
        filter_results_list.append(filter_results_item)
    filter_results = tuple(filter_results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteAclsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), filter_results=filter_results
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteAclsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
