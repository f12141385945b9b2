"""CreateAcls messages, versions 1 to 3.

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
class AclCreation:
    """Part of CreateAcls."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int = 3
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(slots=True, kw_only=True)
class CreateAclsRequest:
    """CreateAcls request, versions 1-3."""

    creations: tuple[AclCreation, ...]


@dataclass(slots=True, kw_only=True)
class AclCreationResult:
    """Part of CreateAcls."""

    error_code: ErrorCode
    error_message: str | None


@dataclass(slots=True, kw_only=True)
class CreateAclsResponse:
    """CreateAcls response, versions 1-3."""

    throttle_time: timedelta
    results: tuple[AclCreationResult, ...]


def _read_acl_creation(buffer: bytes, position: int, end: int) -> tuple[AclCreation, int]:
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
    (resource_pattern_type,) = _unpack_b(buffer, position)
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
    return AclCreation(
        resource_type=resource_type,
        resource_name=resource_name,
        resource_pattern_type=resource_pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateAclsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("creations is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    creations_list: list[AclCreation] = []
    for _ in range(size):
        creations_item, position = _read_acl_creation(buffer, position, end)
        creations_list.append(creations_item)
    creations = tuple(creations_list)
    return CreateAclsRequest(creations=creations), position


def _read_acl_creation_flexible(buffer: bytes, position: int, end: int) -> tuple[AclCreation, int]:
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
    (resource_pattern_type,) = _unpack_b(buffer, position)
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
    return AclCreation(
        resource_type=resource_type,
        resource_name=resource_name,
        resource_pattern_type=resource_pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateAclsRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("creations is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    creations_list: list[AclCreation] = []
    for _ in range(size):
        creations_item, position = _read_acl_creation_flexible(buffer, position, end)
        creations_list.append(creations_item)
    creations = tuple(creations_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreateAclsRequest(creations=creations), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateAclsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_acl_creation_result(out: bytearray, message: AclCreationResult) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_STRING
    else:
        encoded = message.error_message.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_response_legacy(out: bytearray, message: CreateAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.results))
    for results_item in message.results:
        _write_acl_creation_result(out, results_item)


def _write_acl_creation_result_flexible(out: bytearray, message: AclCreationResult) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: CreateAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_acl_creation_result_flexible(out, results_item)
    out += NO_TAGS


def write_response(out: bytearray, message: CreateAclsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_acl_creation(out: bytearray, message: AclCreation) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_b(message.resource_pattern_type)
    encoded = message.principal.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.host.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_bb(message.operation, message.permission_type)


def _write_request_legacy(out: bytearray, message: CreateAclsRequest, version: int) -> None:
    out += _pack_i(len(message.creations))
    for creations_item in message.creations:
        _write_acl_creation(out, creations_item)


def _write_acl_creation_flexible(out: bytearray, message: AclCreation) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_b(message.resource_pattern_type)
    encoded = message.principal.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_bb(message.operation, message.permission_type)
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: CreateAclsRequest, version: int) -> None:
    out += varint(len(message.creations) + 1)
    for creations_item in message.creations:
        _write_acl_creation_flexible(out, creations_item)
    out += NO_TAGS


def write_request(out: bytearray, message: CreateAclsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_acl_creation_result(
    buffer: bytes, position: int, end: int
) -> tuple[AclCreationResult, int]:
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
    return AclCreationResult(
        error_code=ErrorCode(error_code), error_message=error_message
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateAclsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_list: list[AclCreationResult] = []
    for _ in range(size):
        results_item, position = _read_acl_creation_result(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    return CreateAclsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def _read_acl_creation_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AclCreationResult, int]:
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AclCreationResult(
        error_code=ErrorCode(error_code), error_message=error_message
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateAclsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_list: list[AclCreationResult] = []
    for _ in range(size):
        results_item, position = _read_acl_creation_result_flexible(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return CreateAclsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[CreateAclsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
