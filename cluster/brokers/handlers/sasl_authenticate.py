"""SaslAuthenticate (API key 36), versions 0-2: refused on a connection that has no login in
progress.

During a login, `security/logins.py` handles a connection's requests.
"""

from functools import partial
from typing import Final

from cluster.brokers.handlers.request import Handler, RequestContext, Unchecked
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.network.connection import Outgoing
from cluster.brokers.security.login import AUTHENTICATE
from cluster.model.errors import ErrorCode
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(
    _request: SaslAuthenticateRequest, _context: RequestContext, _services: SecurityServices
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )


def _encode(
    version: int, correlation_id: int, response: SaslAuthenticateResponse, _throttle_ms: int
) -> list[Outgoing]:
    # No version of this answer has a throttle time.
    return [encode_response(AUTHENTICATE.key, version, correlation_id, response)]


HANDLER: Final = Handler(
    AUTHENTICATE,
    handle,
    SecurityServices,
    partial(decode_request, AUTHENTICATE.key),
    _encode,
    authorizes=Unchecked("it authenticates the client"),
    before_authentication=True,
)
