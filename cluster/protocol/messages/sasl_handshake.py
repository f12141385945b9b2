"""SaslHandshake messages, versions 0 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, too_many, truncated

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class SaslHandshakeRequest:
    """SaslHandshake request, versions 0-1."""

    mechanism: str


@dataclass(slots=True, kw_only=True)
class SaslHandshakeResponse:
    """SaslHandshake response, versions 0-1."""

    error_code: ErrorCode
    mechanisms: tuple[str, ...] = ()


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslHandshakeRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("mechanism is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    mechanism = buffer[start:position].decode()
    return SaslHandshakeRequest(mechanism=mechanism), position


def write_response(out: bytearray, message: SaslHandshakeResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_h(message.error_code)
    out += _pack_i(len(message.mechanisms))
    for mechanisms_item in message.mechanisms:
        encoded = mechanisms_item.encode()
        out += _pack_h(len(encoded))
        out += encoded


def write_request(out: bytearray, message: SaslHandshakeRequest, version: int) -> None:
    """Append the message as this version has it."""
    encoded = message.mechanism.encode()
    out += _pack_h(len(encoded))
    out += encoded


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[SaslHandshakeResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("mechanisms is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    mechanisms_list: list[str] = []
    for _ in range(size):
        (size,) = _unpack_h(buffer, position)
        position += 2
        if size < 0:
            raise PeerError("mechanisms_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        mechanisms_item = buffer[start:position].decode()
        mechanisms_list.append(mechanisms_item)
    mechanisms = tuple(mechanisms_list)
    return SaslHandshakeResponse(error_code=ErrorCode(error_code), mechanisms=mechanisms), position
