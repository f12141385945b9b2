"""IncrementalAlterConfigs messages, versions 0 to 1.

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
_pack_o = Struct(">?").pack
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from


@dataclass(slots=True, kw_only=True)
class IncrementalAlterableConfig:
    """Part of IncrementalAlterConfigs."""

    name: str
    config_operation: int
    value: str | None


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsResource:
    """Part of IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str
    configs: tuple[IncrementalAlterableConfig, ...]


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs request, versions 0-1."""

    resources: tuple[IncrementalAlterConfigsResource, ...]
    validate_only: bool


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsResourceResponse:
    """Part of IncrementalAlterConfigs."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    """IncrementalAlterConfigs response, versions 0-1."""

    throttle_time: timedelta
    responses: tuple[IncrementalAlterConfigsResourceResponse, ...]


def _read_incremental_alterable_config(
    buffer: bytes, position: int, end: int
) -> tuple[IncrementalAlterableConfig, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (config_operation,) = _unpack_b(buffer, position)
    position += 1
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
    return IncrementalAlterableConfig(
        name=name, config_operation=config_operation, value=value
    ), position


def _read_incremental_alter_configs_resource(
    buffer: bytes, position: int, end: int
) -> tuple[IncrementalAlterConfigsResource, int]:
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
    configs_list: list[IncrementalAlterableConfig] = []
    for _ in range(size):
        configs_item, position = _read_incremental_alterable_config(buffer, position, end)
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    return IncrementalAlterConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configs=configs
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[IncrementalAlterConfigsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("resources is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    resources_list: list[IncrementalAlterConfigsResource] = []
    for _ in range(size):
        resources_item, position = _read_incremental_alter_configs_resource(buffer, position, end)
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    (validate_only,) = _unpack_o(buffer, position)
    position += 1
    return IncrementalAlterConfigsRequest(
        resources=resources, validate_only=validate_only
    ), position


def _read_incremental_alterable_config_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[IncrementalAlterableConfig, int]:
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
    (config_operation,) = _unpack_b(buffer, position)
    position += 1
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
    return IncrementalAlterableConfig(
        name=name, config_operation=config_operation, value=value
    ), position


def _read_incremental_alter_configs_resource_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[IncrementalAlterConfigsResource, int]:
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
    configs_list: list[IncrementalAlterableConfig] = []
    for _ in range(size):
        configs_item, position = _read_incremental_alterable_config_flexible(buffer, position, end)
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return IncrementalAlterConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configs=configs
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[IncrementalAlterConfigsRequest, int]:
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
    resources_list: list[IncrementalAlterConfigsResource] = []
    for _ in range(size):
        resources_item, position = _read_incremental_alter_configs_resource_flexible(
            buffer, position, end
        )
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    (validate_only,) = _unpack_o(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return IncrementalAlterConfigsRequest(
        resources=resources, validate_only=validate_only
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[IncrementalAlterConfigsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 1:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_incremental_alter_configs_resource_response(
    out: bytearray, message: IncrementalAlterConfigsResourceResponse
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


def _write_response_legacy(
    out: bytearray, message: IncrementalAlterConfigsResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.responses))
    for responses_item in message.responses:
        _write_incremental_alter_configs_resource_response(out, responses_item)


def _write_incremental_alter_configs_resource_response_flexible(
    out: bytearray, message: IncrementalAlterConfigsResourceResponse
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


def _write_response_flexible(
    out: bytearray, message: IncrementalAlterConfigsResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.responses) + 1)
    for responses_item in message.responses:
        _write_incremental_alter_configs_resource_response_flexible(out, responses_item)
    out += NO_TAGS


def write_response(out: bytearray, message: IncrementalAlterConfigsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_incremental_alterable_config(
    out: bytearray, message: IncrementalAlterableConfig
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_b(message.config_operation)
    if message.value is None:
        out += NULL_STRING
    else:
        encoded = message.value.encode()
        out += _pack_h(len(encoded))
        out += encoded


def _write_incremental_alter_configs_resource(
    out: bytearray, message: IncrementalAlterConfigsResource
) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.configs))
    for configs_item in message.configs:
        _write_incremental_alterable_config(out, configs_item)


def _write_request_legacy(
    out: bytearray, message: IncrementalAlterConfigsRequest, version: int
) -> None:
    out += _pack_i(len(message.resources))
    for resources_item in message.resources:
        _write_incremental_alter_configs_resource(out, resources_item)
    out += _pack_o(message.validate_only)


def _write_incremental_alterable_config_flexible(
    out: bytearray, message: IncrementalAlterableConfig
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_b(message.config_operation)
    if message.value is None:
        out += NULL_COMPACT
    else:
        encoded = message.value.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_incremental_alter_configs_resource_flexible(
    out: bytearray, message: IncrementalAlterConfigsResource
) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.configs) + 1)
    for configs_item in message.configs:
        _write_incremental_alterable_config_flexible(out, configs_item)
    out += NO_TAGS


def _write_request_flexible(
    out: bytearray, message: IncrementalAlterConfigsRequest, version: int
) -> None:
    out += varint(len(message.resources) + 1)
    for resources_item in message.resources:
        _write_incremental_alter_configs_resource_flexible(out, resources_item)
    out += _pack_o(message.validate_only)
    out += NO_TAGS


def write_request(out: bytearray, message: IncrementalAlterConfigsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 1:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_incremental_alter_configs_resource_response(
    buffer: bytes, position: int, end: int
) -> tuple[IncrementalAlterConfigsResourceResponse, int]:
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
    return IncrementalAlterConfigsResourceResponse(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[IncrementalAlterConfigsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("responses is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    responses_list: list[IncrementalAlterConfigsResourceResponse] = []
    for _ in range(size):
        responses_item, position = _read_incremental_alter_configs_resource_response(
            buffer, position, end
        )
        responses_list.append(responses_item)
    responses = tuple(responses_list)
    return IncrementalAlterConfigsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), responses=responses
    ), position


def _read_incremental_alter_configs_resource_response_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[IncrementalAlterConfigsResourceResponse, int]:
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return IncrementalAlterConfigsResourceResponse(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[IncrementalAlterConfigsResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("responses is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    responses_list: list[IncrementalAlterConfigsResourceResponse] = []
    for _ in range(size):
        responses_item, position = _read_incremental_alter_configs_resource_response_flexible(
            buffer, position, end
        )
        responses_list.append(responses_item)
    responses = tuple(responses_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return IncrementalAlterConfigsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), responses=responses
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[IncrementalAlterConfigsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 1:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
