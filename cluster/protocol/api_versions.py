"""ApiVersions responses (API key 18), versions 0-4: packed once, patched with the correlation id.

Not in the adapter because a client asks before versions are agreed: the response header never has
tags, and a version above ours is answered in the layout of version 0 (KIP-511).
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.writer import varint

MAX_VERSION: Final = 4

_PREFIX: Final = struct.Struct(">ii")
_CORRELATION: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">hhh")
_TAGGED_ENTRY: Final = struct.Struct(">hhhx")
_LEVELS: Final = struct.Struct(">hhx")
_FEATURES_EPOCH: Final = 0
"""Features do not change while a broker runs."""


class ApiVersionsAnswers:
    """Every response of one listener, ready to send; another set of versions is another object."""

    def __init__(self, apis: Iterable[Api], features: Mapping[str, int] | None = None) -> None:
        """`features` are those in force with their level (KIP-584, KIP-1022), for version 3 and
        later.
        """
        entries = sorted(
            (
                api.key,
                api.min_version if api.advertised_min is None else api.advertised_min,
                api.max_version,
            )
            for api in apis
            if api.is_listed
        )
        plain = _ENTRY.pack
        tagged = _TAGGED_ENTRY.pack
        listed = struct.pack(">hi", ErrorCode.none, len(entries))
        listed += b"".join(plain(*entry) for entry in entries)
        compact = struct.pack(">h", ErrorCode.none) + varint(len(entries) + 1)
        compact += b"".join(tagged(*entry) for entry in entries)
        no_throttle = bytes(4)
        tags = _feature_tags(features or {})
        bodies = (listed, *[listed + no_throttle] * 2, *[compact + no_throttle + tags] * 2)
        self._frames = [_frame(body) for body in bodies]
        self._tag_sizes = (0, 0, 0, *[len(tags)] * 2)
        self._invalid = _frame(
            struct.pack(">h", ErrorCode.invalid_request) + b"\1" + no_throttle + b"\0"
        )
        own = [entry for entry in entries if entry[0] == ApiKey.API_VERSIONS]
        self._refusal = _frame(
            struct.pack(">hi", ErrorCode.unsupported_version, len(own))
            + b"".join(plain(*entry) for entry in own)
        )

    def answer(self, version: int, correlation_id: int) -> bytes:
        """The frame that answers a request; an unknown version gets error 35 in version 0."""
        known = 0 <= version < len(self._frames)
        frame = self._frames[version] if known else self._refusal
        return frame[:4] + _CORRELATION.pack(correlation_id) + frame[8:]

    def invalid(self, correlation_id: int) -> bytes:
        """The frame that refuses invalid software names in a request of version 3 or later."""
        return self._invalid[:4] + _CORRELATION.pack(correlation_id) + self._invalid[8:]

    def throttle_position(self, version: int) -> int | None:
        """The position of the throttle time in a response of this version; None if it has none."""
        if not 1 <= version <= MAX_VERSION:
            return None
        return len(self._frames[version]) - self._tag_sizes[version] - _CORRELATION.size


def with_throttle_time(frame: bytes, position: int, throttle_ms: int) -> bytes:
    """The response with another throttle time."""
    end = position + _CORRELATION.size
    return frame[:position] + _CORRELATION.pack(throttle_ms) + frame[end:]


def _feature_tags(features: Mapping[str, int]) -> bytes:
    """The tags at the end of a response: the supported levels, and those in force.

    A feature has one level, which is in force. Features without a level in force are not listed:
    before version 4, clients fail on a lowest level of 0 (KAFKA-17492).
    """
    if not features:
        return b"\0"
    names = [(varint(len(name.encode()) + 1) + name.encode(), features[name]) for name in features]
    count = varint(len(names) + 1)
    levels = count + b"".join(name + _LEVELS.pack(level, level) for name, level in names)
    fields = {0: levels, 1: struct.pack(">q", _FEATURES_EPOCH), 2: levels}
    return varint(len(fields)) + b"".join(
        varint(tag) + varint(len(value)) + value for tag, value in fields.items()
    )


def _frame(body: bytes) -> bytes:
    return _PREFIX.pack(len(body) + 4, 0) + body
