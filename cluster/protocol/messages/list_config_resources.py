"""ListConfigResources messages, versions 0 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_b = Struct(">b").pack
_pack_ih = Struct(">ih").pack
_unpack_b = Struct(">b").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class ListConfigResourcesRequest:
    """ListConfigResources request, versions 0-1."""

    resource_types: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ConfigResource:
    """Part of ListConfigResources."""

    resource_name: str
    resource_type: int = 16


@dataclass(slots=True, kw_only=True)
class ListConfigResourcesResponse:
    """ListConfigResources response, versions 0-1."""

    throttle_time: timedelta
    error_code: ErrorCode
    config_resources: tuple[ConfigResource, ...]


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListConfigResourcesRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    resource_types: tuple[int, ...] = ()
    if version >= 1:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("resource_types is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        resource_types = unpack_from(f">{size}b", buffer, position)
        position += size
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListConfigResourcesRequest(resource_types=resource_types), position


def _write_config_resource(out: bytearray, message: ConfigResource, version: int) -> None:
    encoded = message.resource_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if version >= 1:
        out += _pack_b(message.resource_type)
    out += NO_TAGS


def write_response(out: bytearray, message: ListConfigResourcesResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    out += varint(len(message.config_resources) + 1)
    for config_resources_item in message.config_resources:
        _write_config_resource(out, config_resources_item, version)
    out += NO_TAGS


def write_request(out: bytearray, message: ListConfigResourcesRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        out += varint(len(message.resource_types) + 1)
        out += pack(f">{len(message.resource_types)}b", *message.resource_types)
    out += NO_TAGS


def _read_config_resource(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ConfigResource, int]:
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
    resource_type: int = 16
    if version >= 1:
        (resource_type,) = _unpack_b(buffer, position)
        position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ConfigResource(resource_name=resource_name, resource_type=resource_type), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListConfigResourcesResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("config_resources is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    config_resources_list: list[ConfigResource] = []
    for _ in range(size):
        config_resources_item, position = _read_config_resource(buffer, position, end, version)
        config_resources_list.append(config_resources_item)
    config_resources = tuple(config_resources_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListConfigResourcesResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        config_resources=config_resources,
    ), position
