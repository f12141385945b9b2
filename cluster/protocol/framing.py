"""The header in front of every request body. Pure: a frame in, numbers and a client id out.

v1  api_key int16 | api_version int16 | correlation_id int32 | client_id int16 length (-1 null)
v2  the same, then tagged fields (KIP-482)
"""

import struct
from typing import Final, NamedTuple

from cluster.model.errors import PeerError
from cluster.protocol.api import FIRST_FLEXIBLE
from cluster.protocol.reader import skip_tags

_FIXED: Final = struct.Struct(">hhih")
_unpack: Final = _FIXED.unpack_from
_BODY: Final = _FIXED.size


class RequestHeader(NamedTuple):
    """A request header; the body begins at `body_position` of the same frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(frame: memoryview | bytes) -> RequestHeader:
    """Parse the header of a frame (without its 4-byte size). Raises PeerError."""
    try:
        api_key, api_version, correlation_id, size = _unpack(frame, 0)
    except struct.error:
        raise PeerError(f"request header of {len(frame)} bytes is too short") from None
    position = _BODY
    client_id = None
    if size >= 0:
        position += size
        if position > len(frame):
            raise PeerError(f"client id of {size} bytes ends after its frame of {len(frame)} bytes")
        try:
            client_id = str(frame[_BODY:position], "utf-8")
        except UnicodeDecodeError:
            raise PeerError("client id is not UTF-8") from None
    elif size != -1:
        raise PeerError(f"client id has length {size}")
    # Every API since key 50 has always been flexible, hence the default of 0.
    if api_version >= FIRST_FLEXIBLE.get(api_key, 0):
        try:
            position = (
                position + 1 if not frame[position] else skip_tags(frame, position, len(frame))
            )
        except IndexError:
            raise PeerError("request header ends inside its tagged fields") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)
