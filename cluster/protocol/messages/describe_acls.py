"""DescribeAcls messages, versions 1 to 3.

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
    NULL_COMPACT,
    NULL_STRING,
    EncodedItems,
    varint,
)

_pack_b = Struct(">b").pack
_pack_bb = Struct(">bb").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_unpack_b = Struct(">b").unpack_from
_unpack_bb = Struct(">bb").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeAclsRequest:
    """DescribeAcls request, versions 1-3."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@dataclass(slots=True, kw_only=True)
class AclDescription:
    """Part of DescribeAcls."""

    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(slots=True, kw_only=True)
class DescribeAclsResource:
    """Part of DescribeAcls."""

    resource_type: int
    resource_name: str
    pattern_type: int = 3
    acls: tuple[AclDescription, ...] | EncodedItems


@dataclass(slots=True, kw_only=True)
class DescribeAclsResponse:
    """DescribeAcls response, versions 1-3."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...] | EncodedItems


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeAclsRequest, int]:
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
    return DescribeAclsRequest(
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
) -> tuple[DescribeAclsRequest, int]:
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
    return DescribeAclsRequest(
        resource_type_filter=resource_type_filter,
        resource_name_filter=resource_name_filter,
        pattern_type_filter=pattern_type_filter,
        principal_filter=principal_filter,
        host_filter=host_filter,
        operation=operation,
        permission_type=permission_type,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeAclsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_acl_description(out: bytearray, message: AclDescription) -> None:
    encoded = message.principal.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.host.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_bb(message.operation, message.permission_type)


def _write_describe_acls_resource(out: bytearray, message: DescribeAclsResource) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_b(message.pattern_type)
    out += _pack_i(len(message.acls))
    if isinstance(message.acls, EncodedItems):
        out += message.acls.content
    else:
        for acls_item in message.acls:
            _write_acl_description(out, acls_item)


def _write_response_legacy(out: bytearray, message: DescribeAclsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_i(len(message.resources))
    if isinstance(message.resources, EncodedItems):
        out += message.resources.content
    else:
        for resources_item in message.resources:
            _write_describe_acls_resource(out, resources_item)


def _write_acl_description_flexible(out: bytearray, message: AclDescription) -> None:
    encoded = message.principal.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_bb(message.operation, message.permission_type)
    out += NO_TAGS


def _write_describe_acls_resource_flexible(out: bytearray, message: DescribeAclsResource) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_b(message.pattern_type)
    out += varint(len(message.acls) + 1)
    if isinstance(message.acls, EncodedItems):
        out += message.acls.content
    else:
        for acls_item in message.acls:
            _write_acl_description_flexible(out, acls_item)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: DescribeAclsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.resources) + 1)
    if isinstance(message.resources, EncodedItems):
        out += message.resources.content
    else:
        for resources_item in message.resources:
            _write_describe_acls_resource_flexible(out, resources_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeAclsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: DescribeAclsRequest, version: int) -> None:
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


def _write_request_flexible(out: bytearray, message: DescribeAclsRequest, version: int) -> None:
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


def write_request(out: bytearray, message: DescribeAclsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_acl_description(buffer: bytes, position: int, end: int) -> tuple[AclDescription, int]:
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
    return AclDescription(
        principal=principal, host=host, operation=operation, permission_type=permission_type
    ), position


def _read_describe_acls_resource(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeAclsResource, int]:
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
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("acls is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    acls_list: list[AclDescription] = []
    for _ in range(size):
        acls_item, position = _read_acl_description(buffer, position, end)
        acls_list.append(acls_item)
    acls = tuple(acls_list)
    return DescribeAclsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        acls=acls,
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeAclsResponse, int]:
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
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("resources is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    resources_list: list[DescribeAclsResource] = []
    for _ in range(size):
        resources_item, position = _read_describe_acls_resource(buffer, position, end)
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    return DescribeAclsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resources=resources,
    ), position


def _read_acl_description_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AclDescription, int]:
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
    return AclDescription(
        principal=principal, host=host, operation=operation, permission_type=permission_type
    ), position


def _read_describe_acls_resource_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeAclsResource, int]:
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
        raise PeerError("acls is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    acls_list: list[AclDescription] = []
    for _ in range(size):
        acls_item, position = _read_acl_description_flexible(buffer, position, end)
        acls_list.append(acls_item)
    acls = tuple(acls_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeAclsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        acls=acls,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeAclsResponse, int]:
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("resources is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    resources_list: list[DescribeAclsResource] = []
    for _ in range(size):
        resources_item, position = _read_describe_acls_resource_flexible(buffer, position, end)
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeAclsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resources=resources,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeAclsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)


def write_acl_description(out: bytearray, message: AclDescription, version: int) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    if version >= 2:
        _write_acl_description_flexible(out, message)
    else:
        _write_acl_description(out, message)


def write_describe_acls_resource(
    out: bytearray, message: DescribeAclsResource, version: int
) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    if version >= 2:
        _write_describe_acls_resource_flexible(out, message)
    else:
        _write_describe_acls_resource(out, message)
