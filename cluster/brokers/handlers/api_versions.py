"""ApiVersions (API key 18), versions 0-4.

Answers immediately from prepared bytes. A version that this broker does not support gets
UNSUPPORTED_VERSION in the layout of version 0 with the supported range (KIP-511); no other API does
this.
v3 flexible, client software name and version (stored on the connection; INVALID_REQUEST if they
violate KIP-511), finalized features (KIP-584); v4 supported feature levels.
"""

import re
from typing import Final, NamedTuple

from cluster.brokers.handlers.request import Handler, RequestContext, Unchecked
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.network.connection import Outgoing
from cluster.protocol.adapter import decode_request
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.api_versions import MAX_VERSION, with_throttle_time

API: Final = Api(ApiKey.API_VERSIONS, 0, MAX_VERSION)
_FIRST_WITH_SOFTWARE: Final = 3
_KEPT_CHARACTERS: Final = 100
"""The maximal length of name and version, which bounds the memory of a connection."""
_IS_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?").fullmatch
"""Kafka's `ApiVersionsRequest.isValid`."""


class Answer(NamedTuple):
    """A frame, and the position of its throttle time if its version has one."""

    frame: bytes
    throttle_position: int | None


def handle(
    software: tuple[str, str] | None, context: RequestContext, services: DataServices
) -> Answer:
    """The APIs and features of this broker."""
    answers, version = services.api_versions(), context.version
    if software is not None:
        if not all(_IS_SOFTWARE(word) for word in software):
            return Answer(answers.invalid(context.correlation_id), None)
        name, release = software
        context.channel.software = name[:_KEPT_CHARACTERS], release[:_KEPT_CHARACTERS]
    return Answer(
        answers.answer(version, context.correlation_id), answers.throttle_position(version)
    )


def _decode(version: int, frame: memoryview, position: int) -> tuple[str, str] | None:
    # A client newer than this broker may send a request that this broker cannot decode.
    if not _FIRST_WITH_SOFTWARE <= version <= MAX_VERSION:
        return None
    request = decode_request(ApiKey.API_VERSIONS, version, frame, position)
    return request.client_software_name, request.client_software_version


def _encode(
    _version: int, _correlation_id: int, answer: Answer, throttle_ms: int
) -> list[Outgoing]:
    if not throttle_ms or answer.throttle_position is None:
        return [answer.frame]
    return [with_throttle_time(answer.frame, answer.throttle_position, throttle_ms)]


HANDLER: Final = Handler(
    API,
    handle,
    DataServices,
    _decode,
    _encode,
    authorizes=Unchecked("clients send it before they authenticate"),
    before_authentication=True,
    answers_any_version=True,
)
