"""ApiVersions (API key 18), versions 0-4.

Answers at once from prepared bytes; a version that is unknown here gets error 35 in the layout of
version 0 with our range (KIP-511), which no other API does.
v3 flexible, client software name and version (accepted as they are), features in force (KIP-584);
v4 the levels of features that are supported.
"""

from typing import Final, NamedTuple

from cluster.brokers.handlers.ports import HasApiVersions
from cluster.brokers.handlers.request import Handler, RequestContext
from cluster.brokers.network.connection import Outgoing
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.api_versions import MAX_VERSION, with_throttle_time

API: Final = Api(ApiKey.API_VERSIONS, 0, MAX_VERSION)


class Answer(NamedTuple):
    """A frame, and where its throttle time is, if its version has one."""

    frame: bytes
    throttle_position: int | None


def handle(_request: None, context: RequestContext, services: HasApiVersions) -> Answer:
    """The APIs of this broker, and its features."""
    answers, version = services.api_versions, context.version
    return Answer(
        answers.answer(version, context.correlation_id), answers.throttle_position(version)
    )


def _decode(_version: int, _frame: memoryview, _position: int) -> None:
    # Nothing in the body changes the answer, and a client this new may send what we cannot read.
    return


def _encode(
    _version: int, _correlation_id: int, answer: Answer, throttle_ms: int
) -> list[Outgoing]:
    if not throttle_ms or answer.throttle_position is None:
        return [answer.frame]
    return [with_throttle_time(answer.frame, answer.throttle_position, throttle_ms)]


HANDLER: Final = Handler(
    API, handle, _decode, _encode, before_authentication=True, answers_any_version=True
)
