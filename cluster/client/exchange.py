"""Encodes requests and decodes responses: the client's side of the protocol's codecs. Pure."""

import struct
from typing import Any, Final

from cluster.model.errors import PeerError
from cluster.protocol import messages
from cluster.protocol.api import ApiKey, is_flexible
from cluster.protocol.reader import MALFORMED, skip_tags

_HEADER: Final = struct.Struct(">hhih")
_INT32: Final = struct.Struct(">i")


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str, request: Any
) -> bytes:
    """The frame of a request, its 4-byte size in front."""
    name = client_id.encode()
    out = bytearray(_INT32.size)
    out += _HEADER.pack(api_key, version, correlation_id, len(name)) + name
    if is_flexible(api_key, version):
        out.append(0)  # no tags in the header
    messages.WRITE_REQUEST[api_key](out, request, version)
    _INT32.pack_into(out, 0, len(out) - _INT32.size)
    return bytes(out)


def encode_frame(
    api_key: int, version: int, correlation_id: int, client_id: str, body: bytes
) -> bytes:
    """The frame of a request with an encoded body, for versions whose header has no tags."""
    name = client_id.encode()
    head = _HEADER.pack(api_key, version, correlation_id, len(name)) + name
    return _INT32.pack(len(head) + len(body)) + head + body


def decode_response(api_key: int, version: int, correlation_id: int, frame: bytes) -> Any:
    """The response in a frame, which is given without its 4-byte size.

    Raises PeerError when it is malformed or answers another request.
    """
    name = messages.RESPONSES[api_key].__name__
    read = messages.READ_RESPONSE[api_key]
    try:
        (answered,) = _INT32.unpack_from(frame)
        if answered != correlation_id:
            raise PeerError(f"a response to request {answered} came instead of {correlation_id}")
        position = _INT32.size
        if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS:
            position = skip_tags(frame, position, len(frame))
        response, _ = read(frame, position, len(frame), version)
    except MALFORMED as error:
        raise PeerError(f"malformed {name} v{version}: {error}") from None
    return response
