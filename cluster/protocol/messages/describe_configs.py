"""DescribeConfigs messages, versions 1 to 4.

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
    EncodedItems,
    varint,
)

_pack_b = Struct(">b").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_o = Struct(">?").pack
_pack_obo = Struct(">?b?").pack
_pack_oo = Struct(">??").pack
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from
_unpack_obo = Struct(">?b?").unpack_from
_unpack_oo = Struct(">??").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResource:
    """Part of DescribeConfigs."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = ()


@dataclass(slots=True, kw_only=True)
class DescribeConfigsRequest:
    """DescribeConfigs request, versions 1-4."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(slots=True, kw_only=True)
class DescribeConfigsSynonym:
    """Part of DescribeConfigs."""

    name: str
    value: str | None
    source: int


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    """Part of DescribeConfigs."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int = 0
    documentation: str | None


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResult:
    """Part of DescribeConfigs."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] | EncodedItems


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResponse:
    """DescribeConfigs response, versions 1-4."""

    throttle_time: timedelta
    results: tuple[DescribeConfigsResult, ...]


def _read_describe_configs_resource(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeConfigsResource, int]:
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
    configuration_keys: tuple[str, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        configuration_keys_list: list[str] = []
        for _ in range(size):
            (size,) = _unpack_h(buffer, position)
            position += 2
            if size < 0:
                raise PeerError("configuration_keys_item is null or has a negative length")
            start = position
            position += size
            if position > end:
                raise truncated()
            configuration_keys_item = buffer[start:position].decode()
            configuration_keys_list.append(configuration_keys_item)
        configuration_keys = tuple(configuration_keys_list)
    elif size == -1:
        configuration_keys = None
    else:
        raise PeerError("configuration_keys is null or has a negative length")
    return DescribeConfigsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        configuration_keys=configuration_keys,
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsRequest, int]:
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("resources is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    resources_list: list[DescribeConfigsResource] = []
    for _ in range(size):
        resources_item, position = _read_describe_configs_resource(buffer, position, end)
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    include_documentation: bool = False
    if version >= 3:
        include_synonyms, include_documentation = _unpack_oo(buffer, position)
        position += 2
    else:
        (include_synonyms,) = _unpack_o(buffer, position)
        position += 1
    return DescribeConfigsRequest(
        resources=resources,
        include_synonyms=include_synonyms,
        include_documentation=include_documentation,
    ), position


def _read_describe_configs_resource_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeConfigsResource, int]:
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
    configuration_keys: tuple[str, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        configuration_keys_list: list[str] = []
        for _ in range(size):
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("configuration_keys_item is null or has a negative length")
            start = position
            position += size
            if position > end:
                raise truncated()
            configuration_keys_item = buffer[start:position].decode()
            configuration_keys_list.append(configuration_keys_item)
        configuration_keys = tuple(configuration_keys_list)
    else:
        configuration_keys = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeConfigsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        configuration_keys=configuration_keys,
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsRequest, int]:
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
    resources_list: list[DescribeConfigsResource] = []
    for _ in range(size):
        resources_item, position = _read_describe_configs_resource_flexible(buffer, position, end)
        resources_list.append(resources_item)
    resources = tuple(resources_list)
    include_synonyms, include_documentation = _unpack_oo(buffer, position)
    position += 2
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeConfigsRequest(
        resources=resources,
        include_synonyms=include_synonyms,
        include_documentation=include_documentation,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 4:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_describe_configs_synonym(out: bytearray, message: DescribeConfigsSynonym) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.value is None:
        out += NULL_STRING
    else:
        encoded = message.value.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_b(message.source)


def _write_describe_configs_resource_result(
    out: bytearray, message: DescribeConfigsResourceResult, version: int
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.value is None:
        out += NULL_STRING
    else:
        encoded = message.value.encode()
        out += _pack_h(len(encoded))
        out += encoded
    out += _pack_obo(message.read_only, message.config_source, message.is_sensitive)
    out += _pack_i(len(message.synonyms))
    for synonyms_item in message.synonyms:
        _write_describe_configs_synonym(out, synonyms_item)
    if version >= 3:
        out += _pack_b(message.config_type)
    if version >= 3:
        if message.documentation is None:
            out += NULL_STRING
        else:
            encoded = message.documentation.encode()
            out += _pack_h(len(encoded))
            out += encoded


def _write_describe_configs_result(
    out: bytearray, message: DescribeConfigsResult, version: int
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
    out += _pack_i(len(message.configs))
    if isinstance(message.configs, EncodedItems):
        out += message.configs.content
    else:
        for configs_item in message.configs:
            _write_describe_configs_resource_result(out, configs_item, version)


def _write_response_legacy(out: bytearray, message: DescribeConfigsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.results))
    for results_item in message.results:
        _write_describe_configs_result(out, results_item, version)


def _write_describe_configs_synonym_flexible(
    out: bytearray, message: DescribeConfigsSynonym
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.value is None:
        out += NULL_COMPACT
    else:
        encoded = message.value.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_b(message.source)
    out += NO_TAGS


def _write_describe_configs_resource_result_flexible(
    out: bytearray, message: DescribeConfigsResourceResult
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.value is None:
        out += NULL_COMPACT
    else:
        encoded = message.value.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_obo(message.read_only, message.config_source, message.is_sensitive)
    out += varint(len(message.synonyms) + 1)
    for synonyms_item in message.synonyms:
        _write_describe_configs_synonym_flexible(out, synonyms_item)
    out += _pack_b(message.config_type)
    if message.documentation is None:
        out += NULL_COMPACT
    else:
        encoded = message.documentation.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _write_describe_configs_result_flexible(out: bytearray, message: DescribeConfigsResult) -> None:
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
    out += varint(len(message.configs) + 1)
    if isinstance(message.configs, EncodedItems):
        out += message.configs.content
    else:
        for configs_item in message.configs:
            _write_describe_configs_resource_result_flexible(out, configs_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: DescribeConfigsResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_describe_configs_result_flexible(out, results_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeConfigsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 4:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_describe_configs_resource(out: bytearray, message: DescribeConfigsResource) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    if message.configuration_keys is None:
        out += NULL_ARRAY
    else:
        out += _pack_i(len(message.configuration_keys))
        for configuration_keys_item in message.configuration_keys:
            encoded = configuration_keys_item.encode()
            out += _pack_h(len(encoded))
            out += encoded


def _write_request_legacy(out: bytearray, message: DescribeConfigsRequest, version: int) -> None:
    out += _pack_i(len(message.resources))
    for resources_item in message.resources:
        _write_describe_configs_resource(out, resources_item)
    if version >= 3:
        out += _pack_oo(message.include_synonyms, message.include_documentation)
    else:
        out += _pack_o(message.include_synonyms)


def _write_describe_configs_resource_flexible(
    out: bytearray, message: DescribeConfigsResource
) -> None:
    out += _pack_b(message.resource_type)
    encoded = message.resource_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.configuration_keys is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.configuration_keys) + 1)
        for configuration_keys_item in message.configuration_keys:
            encoded = configuration_keys_item.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    out += NO_TAGS


def _write_request_flexible(out: bytearray, message: DescribeConfigsRequest, version: int) -> None:
    out += varint(len(message.resources) + 1)
    for resources_item in message.resources:
        _write_describe_configs_resource_flexible(out, resources_item)
    out += _pack_oo(message.include_synonyms, message.include_documentation)
    out += NO_TAGS


def write_request(out: bytearray, message: DescribeConfigsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 4:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_describe_configs_synonym(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeConfigsSynonym, int]:
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
    (source,) = _unpack_b(buffer, position)
    position += 1
    return DescribeConfigsSynonym(name=name, value=value, source=source), position


def _read_describe_configs_resource_result(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsResourceResult, int]:
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
    read_only, config_source, is_sensitive = _unpack_obo(buffer, position)
    position += 3
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("synonyms is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    synonyms_list: list[DescribeConfigsSynonym] = []
    for _ in range(size):
        synonyms_item, position = _read_describe_configs_synonym(buffer, position, end)
        synonyms_list.append(synonyms_item)
    synonyms = tuple(synonyms_list)
    config_type: int = 0
    if version >= 3:
        (config_type,) = _unpack_b(buffer, position)
        position += 1
    documentation: str | None = ""
    if version >= 3:
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            documentation = buffer[start:position].decode()
        elif size == -1:
            documentation = None
        else:
            raise PeerError("documentation is null or has a negative length")
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=config_source,
        is_sensitive=is_sensitive,
        synonyms=synonyms,
        config_type=config_type,
        documentation=documentation,
    ), position


def _read_describe_configs_result(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsResult, int]:
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
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("configs is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    configs_list: list[DescribeConfigsResourceResult] = []
    for _ in range(size):
        configs_item, position = _read_describe_configs_resource_result(
            buffer, position, end, version
        )
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    return DescribeConfigsResult(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        configs=configs,
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsResponse, int]:
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
    results_list: list[DescribeConfigsResult] = []
    for _ in range(size):
        results_item, position = _read_describe_configs_result(buffer, position, end, version)
        results_list.append(results_item)
    results = tuple(results_list)
    return DescribeConfigsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def _read_describe_configs_synonym_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeConfigsSynonym, int]:
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
    (source,) = _unpack_b(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeConfigsSynonym(name=name, value=value, source=source), position


def _read_describe_configs_resource_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeConfigsResourceResult, int]:
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
    read_only, config_source, is_sensitive = _unpack_obo(buffer, position)
    position += 3
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("synonyms is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    synonyms_list: list[DescribeConfigsSynonym] = []
    for _ in range(size):
        synonyms_item, position = _read_describe_configs_synonym_flexible(buffer, position, end)
        synonyms_list.append(synonyms_item)
    synonyms = tuple(synonyms_list)
    (config_type,) = _unpack_b(buffer, position)
    position += 1
    documentation: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        documentation = buffer[start:position].decode()
    else:
        documentation = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=config_source,
        is_sensitive=is_sensitive,
        synonyms=synonyms,
        config_type=config_type,
        documentation=documentation,
    ), position


def _read_describe_configs_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeConfigsResult, int]:
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
    configs_list: list[DescribeConfigsResourceResult] = []
    for _ in range(size):
        configs_item, position = _read_describe_configs_resource_result_flexible(
            buffer, position, end
        )
        configs_list.append(configs_item)
    configs = tuple(configs_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeConfigsResult(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        configs=configs,
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsResponse, int]:
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
    results_list: list[DescribeConfigsResult] = []
    for _ in range(size):
        results_item, position = _read_describe_configs_result_flexible(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeConfigsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeConfigsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 4:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)


def write_describe_configs_resource_result(
    out: bytearray, message: DescribeConfigsResourceResult, version: int
) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    if version >= 4:
        _write_describe_configs_resource_result_flexible(out, message)
    else:
        _write_describe_configs_resource_result(out, message, version)
