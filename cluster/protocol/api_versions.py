"""ApiVersions responses (API key 18), versions 0-4: packed once, patched with the correlation id.

Kept out of the adapter because a client asks before anything is agreed on: the response header
never has tags, and a version above ours is answered in the layout of version 0 (KIP-511).
"""

import struct
from collections.abc import Iterable
from typing import Final

from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.writer import varint

MAX_VERSION: Final = 4

_PREFIX: Final = struct.Struct(">ii")
_CORRELATION: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">hhh")
_FIRST_TAGGED: Final = 3
_TAGGED_ENTRY: Final = struct.Struct(">hhhx")


class ApiVersionsAnswers:
    """Every answer that a listener can give, ready to send; another set is another object."""

    def __init__(self, apis: Iterable[Api]) -> None:
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
        # Since version 3 tags may list features: we have none, so the tag section is empty.
        bodies = (listed, *[listed + no_throttle] * 2, *[compact + no_throttle + b"\0"] * 2)
        self._frames = [_frame(body) for body in bodies]
        own = [entry for entry in entries if entry[0] == ApiKey.API_VERSIONS]
        self._refusal = _frame(
            struct.pack(">hi", ErrorCode.unsupported_version, len(own))
            + b"".join(plain(*entry) for entry in own)
        )

    def answer(self, version: int, correlation_id: int) -> bytes:
        """The frame that answers a request; a version unknown to us gets error 35 as version 0."""
        known = 0 <= version < len(self._frames)
        frame = self._frames[version] if known else self._refusal
        return frame[:4] + _CORRELATION.pack(correlation_id) + frame[8:]


def with_throttle_time(version: int, frame: bytes, throttle_ms: int) -> bytes:
    """The frame of an answer with that throttle time; versions without one stay as they are."""
    if not 1 <= version <= MAX_VERSION:
        return frame
    end = len(frame) - (1 if version >= _FIRST_TAGGED else 0)
    return frame[: end - 4] + _CORRELATION.pack(throttle_ms) + frame[end:]


def _frame(body: bytes) -> bytes:
    return _PREFIX.pack(len(body) + 4, 0) + body
