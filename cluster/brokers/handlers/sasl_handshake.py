"""SaslHandshake (API key 17), versions 0-1, of a connection that has nothing to prove.

The first login of a connection is no handler's work: its requests go to `security/logins.py`. Here
a login begins anew where the session may expire (KIP-368), else the request is refused.
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
    """Begin to log in again; ILLEGAL_SASL_STATE where the connection need not, or may not yet."""
    if services.logins.log_in_again(context.channel, frame):
        return PARKED
    return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state)


def _decode(_version: int, frame: memoryview, _position: int) -> memoryview:
    return frame


def _encode(
    version: int, correlation_id: int, response: SaslHandshakeResponse, _throttle_ms: int
) -> list[Outgoing]:
    # Answers to logins have no throttle time in any version.
    return [encode_response(HANDSHAKE.key, version, correlation_id, response)]


HANDLER: Final = Handler(
    HANDSHAKE,
    handle,
    SecurityServices,
    _decode,
    _encode,
    authorizes=Unchecked("it says who the client is"),
    before_authentication=True,
)
