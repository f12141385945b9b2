"""SaslHandshake (API key 17), versions 0-1, of a connection without a login in progress.

This handler starts a re-authentication if the session may expire (KIP-368), and otherwise refuses
the request. A connection's first login is handled by `security/logins.py` alone.
"""

from typing import Final

from cluster.brokers.handlers.request import (
    PARKED,
    Handler,
    NotYet,
    RequestContext,
    Unchecked,
)
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.network.connection import Outgoing
from cluster.brokers.security.login import HANDSHAKE
from cluster.model.errors import ErrorCode
from cluster.protocol.adapter import encode_response
from cluster.protocol.messages import SaslHandshakeResponse


def handle(
    frame: memoryview, context: RequestContext, services: SecurityServices
) -> SaslHandshakeResponse | NotYet:
    """Start a re-authentication; ILLEGAL_SASL_STATE if the connection has none to do, or
    not yet.
    """
    if services.logins.log_in_again(context.channel, frame):
        return PARKED
    return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state)


def _decode(_version: int, frame: memoryview, _position: int) -> memoryview:
    return frame


def _encode(
    version: int, correlation_id: int, response: SaslHandshakeResponse, _throttle_ms: int
) -> list[Outgoing]:
    # No version of this answer has a throttle time.
    return [encode_response(HANDSHAKE.key, version, correlation_id, response)]


HANDLER: Final = Handler(
    HANDSHAKE,
    handle,
    SecurityServices,
    _decode,
    _encode,
    authorizes=Unchecked("it authenticates the client"),
    before_authentication=True,
)
