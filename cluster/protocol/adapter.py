"""Converts between frames and version-free messages, so that handlers ignore protocol versions.

The generated functions of `messages/` read and write the bytes; the two tables here adapt fields
whose *meaning* differs between versions. Does no IO. Produce and Fetch have their own codecs.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol import messages
from cluster.protocol.api import ApiKey, is_flexible
from cluster.protocol.reader import MALFORMED

Adjust = Callable[[Any, int], Any]

_PREFIX: Final = struct.Struct(">ii")
_SIZE: Final = struct.Struct(">i")


def decode_request(api_key: int, version: int, frame: memoryview | bytes, position: int) -> Any:
    """Decode the version-free request whose body begins at `position`; leftover bytes are ignored.

    The caller has checked that the API and version are served. Raises PeerError with a one-line
    reason.
    """
    read = messages.READ_REQUEST[api_key]
    body = bytes(frame[position:])
    try:
        request, _ = read(body, 0, len(body), version)
    except (*MALFORMED, PeerError) as error:
        name = messages.REQUESTS[api_key].__name__
        raise PeerError(f"malformed {name} v{version}: {error}") from None
    if (adjust := _UPGRADES.get(api_key)) is not None:
        return adjust(request, version)
    return request


def encode_response(api_key: int, version: int, correlation_id: int, response: Any) -> bytes:
    """Encode the complete frame of a response, including its 4-byte size."""
    if (adjust := _DOWNGRADES.get(api_key)) is not None:
        response = adjust(response, version)
    out = bytearray(_PREFIX.pack(0, correlation_id))
    if (
        is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS
    ):  # whose header never has tags (KIP-511)
        out.append(0)
    messages.WRITE_RESPONSE[api_key](out, response, version)
    _SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _metadata_request(request: messages.MetadataRequest, version: int) -> messages.MetadataRequest:
    # Version 0 has no null, and means all topics by an empty list.
    if version == 0 and not request.topics:
        request.topics = None
    # Versions 10 and 11 have the fields for it, but Kafka asks by id from version 12 on.
    if 10 <= version < 12:
        for topic in request.topics or ():
            if topic.name is None:
                raise PeerError(f"malformed MetadataRequest v{version}: a topic without a name")
            topic.topic_id = None
    return request


def _delete_topics_request(
    request: messages.DeleteTopicsRequest, version: int
) -> messages.DeleteTopicsRequest:
    # Versions 1-5 name topics in a plain list of strings.
    if version < 6:
        request.topics = tuple(
            messages.DeleteTopicState(name=name, topic_id=None) for name in request.topic_names
        )
    return request


def _init_producer_id_response(
    response: messages.InitProducerIdResponse, version: int
) -> messages.InitProducerIdResponse:
    # Clients below version 4 know a fenced producer only by INVALID_PRODUCER_EPOCH (KIP-588).
    if version < 4 and response.error_code is ErrorCode.producer_fenced:
        return replace(response, error_code=ErrorCode.invalid_producer_epoch)
    return response


_UPGRADES: Final[Mapping[int, Adjust]] = {
    ApiKey.METADATA: _metadata_request,
    ApiKey.DELETE_TOPICS: _delete_topics_request,
}
_DOWNGRADES: Final[Mapping[int, Adjust]] = {
    ApiKey.INIT_PRODUCER_ID: _init_producer_id_response,
}
