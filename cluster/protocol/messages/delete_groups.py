"""DeleteGroups messages, versions 0 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class DeleteGroupsRequest:
    """DeleteGroups request, versions 0-2."""

    groups_names: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class DeletableGroupResult:
    """Part of DeleteGroups."""

    group_id: str
    error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class DeleteGroupsResponse:
    """DeleteGroups response, versions 0-2."""

    throttle_time: timedelta
    results: tuple[DeletableGroupResult, ...]


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteGroupsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("groups_names is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    groups_names_list: list[str] = []
    for _ in range(size):
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size < 0:
            raise PeerError("groups_names_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        groups_names_item = buffer[start:position].decode()
        groups_names_list.append(groups_names_item)
    groups_names = tuple(groups_names_list)
    return DeleteGroupsRequest(groups_names=groups_names), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteGroupsRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("groups_names is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    groups_names_list: list[str] = []
    for _ in range(size):
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("groups_names_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        groups_names_item = buffer[start:position].decode()
        groups_names_list.append(groups_names_item)
    groups_names = tuple(groups_names_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteGroupsRequest(groups_names=groups_names), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteGroupsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_deletable_group_result(out: bytearray, message: DeletableGroupResult) -> None:
    encoded = message.group_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_h(message.error_code)


def _write_response_legacy(out: bytearray, message: DeleteGroupsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.results))
    for results_item in message.results:
        _write_deletable_group_result(out, results_item)


def _write_deletable_group_result_flexible(out: bytearray, message: DeletableGroupResult) -> None:
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_h(message.error_code)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: DeleteGroupsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_deletable_group_result_flexible(out, results_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DeleteGroupsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: DeleteGroupsRequest, version: int) -> None:
    out += _pack_i(len(message.groups_names))
    for groups_names_item in message.groups_names:
        encoded = groups_names_item.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_request_flexible(out: bytearray, message: DeleteGroupsRequest, version: int) -> None:
    out += varint(len(message.groups_names) + 1)
    for groups_names_item in message.groups_names:
        encoded = groups_names_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def write_request(out: bytearray, message: DeleteGroupsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_deletable_group_result(
    buffer: bytes, position: int, end: int
) -> tuple[DeletableGroupResult, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode(error_code)), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteGroupsResponse, int]:
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
    results_list: list[DeletableGroupResult] = []
    for _ in range(size):
        results_item, position = _read_deletable_group_result(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    return DeleteGroupsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def _read_deletable_group_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DeletableGroupResult, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode(error_code)), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteGroupsResponse, int]:
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
    results_list: list[DeletableGroupResult] = []
    for _ in range(size):
        results_item, position = _read_deletable_group_result_flexible(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DeleteGroupsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DeleteGroupsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
