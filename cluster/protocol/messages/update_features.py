"""UpdateFeatures messages, versions 0 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, varint

_pack_h = Struct(">h").pack
_pack_ih = Struct(">ih").pack
_unpack_hb = Struct(">hb").unpack_from
_unpack_ho = Struct(">h?").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_o = Struct(">?").unpack_from


@dataclass(slots=True, kw_only=True)
class FeatureUpdateKey:
    """Part of UpdateFeatures."""

    feature: str
    max_version_level: int
    allow_downgrade: bool = False
    upgrade_type: int = 1


@dataclass(slots=True, kw_only=True)
class UpdateFeaturesRequest:
    """UpdateFeatures request, versions 0-2."""

    timeout: timedelta = timedelta(milliseconds=60000)
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool = False


@dataclass(slots=True, kw_only=True)
class UpdatableFeatureResult:
    """Part of UpdateFeatures."""

    feature: str = ""
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""


@dataclass(slots=True, kw_only=True)
class UpdateFeaturesResponse:
    """UpdateFeatures response, versions 0-2."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    results: tuple[UpdatableFeatureResult, ...] = ()


def _read_feature_update_key(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[FeatureUpdateKey, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("feature is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    feature = buffer[start:position].decode()
    allow_downgrade: bool = False
    upgrade_type: int = 1
    if version >= 1:
        max_version_level, upgrade_type = _unpack_hb(buffer, position)
        position += 3
    else:
        max_version_level, allow_downgrade = _unpack_ho(buffer, position)
        position += 3
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return FeatureUpdateKey(
        feature=feature,
        max_version_level=max_version_level,
        allow_downgrade=allow_downgrade,
        upgrade_type=upgrade_type,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[UpdateFeaturesRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (timeout,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("feature_updates is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    feature_updates_list: list[FeatureUpdateKey] = []
    for _ in range(size):
        feature_updates_item, position = _read_feature_update_key(buffer, position, end, version)
        feature_updates_list.append(feature_updates_item)
    feature_updates = tuple(feature_updates_list)
    validate_only: bool = False
    if version >= 1:
        (validate_only,) = _unpack_o(buffer, position)
        position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return UpdateFeaturesRequest(
        timeout=timedelta(0, 0, 0, timeout),
        feature_updates=feature_updates,
        validate_only=validate_only,
    ), position


def _write_updatable_feature_result(out: bytearray, message: UpdatableFeatureResult) -> None:
    encoded = message.feature.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def write_response(out: bytearray, message: UpdateFeaturesResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version <= 1:
        out += varint(len(message.results) + 1)
        for results_item in message.results:
            _write_updatable_feature_result(out, results_item)
    out += NO_TAGS
