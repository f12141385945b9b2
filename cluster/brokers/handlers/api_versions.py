"""ApiVersions (API key 18), versions 0-4.

Answers at once from prepared bytes; a version that is unknown here gets error 35 in the layout of
version 0 with our range (KIP-511), which no other API does.
v3 flexible, client software name and version (accepted as they are).
"""

from typing import Final

from cluster.brokers.handlers.ports import HasApiVersions
from cluster.brokers.handlers.request import Handler, RequestContext
from cluster.brokers.network.connection import Outgoing
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.api_versions import MAX_VERSION, with_throttle_time

API: Final = Api(ApiKey.API_VERSIONS, 0, MAX_VERSION)


def handle(_request: None, context: RequestContext, services: HasApiVersions) -> bytes:
    """The APIs of this broker, as a frame."""
    return services.api_versions.answer(context.version, context.correlation_id)


def _decode(_version: int, _frame: memoryview, _position: int) -> None:
    # Nothing in the body changes the answer, and a client this new may send what we cannot read.
    return


def _encode(version: int, _correlation_id: int, frame: bytes, throttle_ms: int) -> list[Outgoing]:
    return [with_throttle_time(version, frame, throttle_ms) if throttle_ms else frame]


HANDLER: Final = Handler(
    API, handle, _decode, _encode, before_authentication=True, answers_any_version=True
)
