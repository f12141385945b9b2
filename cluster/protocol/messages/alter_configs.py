"""AlterConfigs messages, versions 0 to 2.

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
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from


@dataclass(slots=True, kw_only=True)
class AlterableConfig:
    """Part of AlterConfigs."""

    name: str
    value: str | None


@dataclass(slots=True, kw_only=True)
class AlterConfigsResource:
    """Part of AlterConfigs."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@dataclass(slots=True, kw_only=True)
class AlterConfigsRequest:
    """AlterConfigs request, versions 0-2."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


@dataclass(slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    """Part of AlterConfigs."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str


@dataclass(slots=True, kw_only=True)
class AlterConfigsResponse:
    """AlterConfigs response, versions 0-2."""

    throttle_time: timedelta
    responses: tuple[AlterConfigsResourceResponse, ...]


def _read_alterable_config(buffer: bytes, position: int, end: int) -> tuple[AlterableConfig, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    value: str | None
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        value = buffer[start:position].decode()
    elif size == -1:
        value = None
    else:
        raise PeerError("value is null or has a negative length")
    return AlterableConfig(name=name, value=value), position


def _read_alter_configs_resource(
    buffer: bytes, position: int, end: int
) -> tuple[AlterConfigsResource, int]:
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
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("configs is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    configs_list: list[AlterableConfig] = []
    for _ in range(size):
        configs_item, position = _read_alterable_config(buffer, position, end)
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    return AlterConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configs=configs
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterConfigsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("resources is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    resources_list: list[AlterConfigsResource] = []
    for _ in range(size):
        resources_item, position = _read_alter_configs_resource(buffer, position, end)
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    (validate_only,) = _unpack_o(buffer, position)
    position += 1
    return AlterConfigsRequest(resources=resources, validate_only=validate_only), position


def _read_alterable_config_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AlterableConfig, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    value: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        value = buffer[start:position].decode()
    else:
        value = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterableConfig(name=name, value=value), position


def _read_alter_configs_resource_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AlterConfigsResource, int]:
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("configs is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    configs_list: list[AlterableConfig] = []
    for _ in range(size):
        configs_item, position = _read_alterable_config_flexible(buffer, position, end)
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configs=configs
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterConfigsRequest, int]:
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
    resources_list: list[AlterConfigsResource] = []
    for _ in range(size):
        resources_item, position = _read_alter_configs_resource_flexible(buffer, position, end)
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    (validate_only,) = _unpack_o(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterConfigsRequest(resources=resources, validate_only=validate_only), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterConfigsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_alter_configs_resource_response(
    out: bytearray, message: AlterConfigsResourceResponse
) -> None:
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


def _write_response_legacy(out: bytearray, message: AlterConfigsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.responses))
    for responses_item in message.responses:
        _write_alter_configs_resource_response(out, responses_item)


def _write_alter_configs_resource_response_flexible(
    out: bytearray, message: AlterConfigsResourceResponse
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
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: AlterConfigsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.responses) + 1)
    for responses_item in message.responses:
        _write_alter_configs_resource_response_flexible(out, responses_item)
    out += NO_TAGS


def write_response(out: bytearray, message: AlterConfigsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
