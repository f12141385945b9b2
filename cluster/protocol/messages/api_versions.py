"""ApiVersions messages, versions 0 to 4.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    NO_TIME,
    read_length,
    skip_tags,
    tag_spans,
    too_many,
    truncated,
)
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_hh = Struct(">hh").pack
_pack_hhh = Struct(">hhh").pack
_pack_i = Struct(">i").pack
_pack_o = Struct(">?").pack
_pack_q = Struct(">q").pack
_unpack_h = Struct(">h").unpack_from
_unpack_hh = Struct(">hh").unpack_from
_unpack_hhh = Struct(">hhh").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from
_unpack_q = Struct(">q").unpack_from


@dataclass(slots=True, kw_only=True)
class ApiVersionsRequest:
    """ApiVersions request, versions 0-4."""

    client_software_name: str
    client_software_version: str


@dataclass(slots=True, kw_only=True)
class ApiVersion:
    """Part of ApiVersions."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(slots=True, kw_only=True)
class SupportedFeatureKey:
    """Part of ApiVersions."""

    name: str
    min_version: int
    max_version: int


@dataclass(slots=True, kw_only=True)
class FinalizedFeatureKey:
    """Part of ApiVersions."""

    name: str
    max_version_level: int
    min_version_level: int


@dataclass(slots=True, kw_only=True)
class ApiVersionsResponse:
    """ApiVersions response, versions 0-4."""

    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: timedelta
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ApiVersionsRequest, int]:
    return ApiVersionsRequest(client_software_name="", client_software_version=""), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ApiVersionsRequest, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("client_software_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_software_name = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("client_software_version is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_software_version = buffer[start:position].decode()
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ApiVersionsRequest(
        client_software_name=client_software_name, client_software_version=client_software_version
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ApiVersionsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_api_version(out: bytearray, message: ApiVersion) -> None:
    out += _pack_hhh(message.api_key, message.min_version, message.max_version)


def _write_response_legacy(out: bytearray, message: ApiVersionsResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    out += _pack_i(len(message.api_keys))
    for api_keys_item in message.api_keys:
        _write_api_version(out, api_keys_item)
    if version >= 1:
        out += _pack_i(message.throttle_time // MILLISECOND)


def _write_api_version_flexible(out: bytearray, message: ApiVersion) -> None:
    out += _pack_hhh(message.api_key, message.min_version, message.max_version)
    out += NO_TAGS


def _write_supported_feature_key_flexible(out: bytearray, message: SupportedFeatureKey) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_hh(message.min_version, message.max_version)
    out += NO_TAGS


def _write_finalized_feature_key_flexible(out: bytearray, message: FinalizedFeatureKey) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_hh(message.max_version_level, message.min_version_level)
    out += NO_TAGS


def _write_response_flexible(out: bytearray, message: ApiVersionsResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    out += varint(len(message.api_keys) + 1)
    for api_keys_item in message.api_keys:
        _write_api_version_flexible(out, api_keys_item)
    out += _pack_i(message.throttle_time // MILLISECOND)
    count = 0
    tags = bytearray()
    if message.supported_features != ():
        count += 1
        content = bytearray()
        content += varint(len(message.supported_features) + 1)
        for supported_features_item in message.supported_features:
            _write_supported_feature_key_flexible(content, supported_features_item)
        value = bytes(content)
        tags += varint(0) + varint(len(value)) + value
    if message.finalized_features_epoch != -1:
        count += 1
        value = _pack_q(message.finalized_features_epoch)
        tags += varint(1) + varint(len(value)) + value
    if message.finalized_features != ():
        count += 1
        content = bytearray()
        content += varint(len(message.finalized_features) + 1)
        for finalized_features_item in message.finalized_features:
            _write_finalized_feature_key_flexible(content, finalized_features_item)
        value = bytes(content)
        tags += varint(2) + varint(len(value)) + value
    if message.zk_migration_ready:
        count += 1
        value = _pack_o(message.zk_migration_ready)
        tags += varint(3) + varint(len(value)) + value
    out += varint(count)
    out += tags


def write_response(out: bytearray, message: ApiVersionsResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_request_legacy(out: bytearray, message: ApiVersionsRequest, version: int) -> None:
    """Nothing is in it."""


def _write_request_flexible(out: bytearray, message: ApiVersionsRequest, version: int) -> None:
    encoded = message.client_software_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.client_software_version.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += NO_TAGS


def write_request(out: bytearray, message: ApiVersionsRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_api_version(buffer: bytes, position: int, end: int) -> tuple[ApiVersion, int]:
    api_key, min_version, max_version = _unpack_hhh(buffer, position)
    position += 6
    return ApiVersion(api_key=api_key, min_version=min_version, max_version=max_version), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ApiVersionsResponse, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("api_keys is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    api_keys_list: list[ApiVersion] = []
    for _ in range(size):
        api_keys_item, position = _read_api_version(buffer, position, end)
        api_keys_list.append(api_keys_item)
    api_keys = tuple(api_keys_list)
    throttle_time: timedelta = NO_TIME
    if version >= 1:
        (throttle_time_raw,) = _unpack_i(buffer, position)
        position += 4
        throttle_time = timedelta(0, 0, 0, throttle_time_raw)
    return ApiVersionsResponse(
        error_code=ErrorCode(error_code), api_keys=api_keys, throttle_time=throttle_time
    ), position


def _read_api_version_flexible(buffer: bytes, position: int, end: int) -> tuple[ApiVersion, int]:
    api_key, min_version, max_version = _unpack_hhh(buffer, position)
    position += 6
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ApiVersion(api_key=api_key, min_version=min_version, max_version=max_version), position


def _read_supported_feature_key_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[SupportedFeatureKey, int]:
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
    min_version, max_version = _unpack_hh(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return SupportedFeatureKey(
        name=name, min_version=min_version, max_version=max_version
    ), position


def _read_finalized_feature_key_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[FinalizedFeatureKey, int]:
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
    max_version_level, min_version_level = _unpack_hh(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return FinalizedFeatureKey(
        name=name, max_version_level=max_version_level, min_version_level=min_version_level
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ApiVersionsResponse, int]:
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("api_keys is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    api_keys_list: list[ApiVersion] = []
    for _ in range(size):
        api_keys_item, position = _read_api_version_flexible(buffer, position, end)
        api_keys_list.append(api_keys_item)
    api_keys = tuple(api_keys_list)
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        spans, after = tag_spans(buffer, position, end)
        if 0 in spans:
            position, value_end = spans[0]
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("supported_features is null or has a negative length")
            if size > value_end - position:
                raise truncated()
            if size > ELEMENTS_MAX:
                raise too_many(size)
            supported_features_list: list[SupportedFeatureKey] = []
            for _ in range(size):
                supported_features_item, position = _read_supported_feature_key_flexible(
                    buffer, position, value_end
                )
                supported_features_list.append(supported_features_item)
            supported_features = tuple(supported_features_list)
        if 1 in spans:
            position, value_end = spans[1]
            if value_end - position < 8:
                raise truncated()
            (finalized_features_epoch,) = _unpack_q(buffer, position)
        if 2 in spans:
            position, value_end = spans[2]
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("finalized_features is null or has a negative length")
            if size > value_end - position:
                raise truncated()
            if size > ELEMENTS_MAX:
                raise too_many(size)
            finalized_features_list: list[FinalizedFeatureKey] = []
            for _ in range(size):
                finalized_features_item, position = _read_finalized_feature_key_flexible(
                    buffer, position, value_end
                )
                finalized_features_list.append(finalized_features_item)
            finalized_features = tuple(finalized_features_list)
        if 3 in spans:
            position, value_end = spans[3]
            if value_end - position < 1:
                raise truncated()
            (zk_migration_ready,) = _unpack_o(buffer, position)
        position = after
    return ApiVersionsResponse(
        error_code=ErrorCode(error_code),
        api_keys=api_keys,
        throttle_time=timedelta(0, 0, 0, throttle_time),
        supported_features=supported_features,
        finalized_features_epoch=finalized_features_epoch,
        finalized_features=finalized_features,
        zk_migration_ready=zk_migration_ready,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ApiVersionsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
