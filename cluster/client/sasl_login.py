"""Logs one connection in: SaslHandshake, SaslAuthenticate by PLAIN (RFC 4616), SCRAM, a token."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from cluster.client.bearer_tokens import first_message
from cluster.client.security import ClientSecurity
from cluster.model.errors import ErrorCode, UserError
from cluster.model.scram import TOKEN_AUTH, ScramClient, ScramError
from cluster.model.security import SaslMechanism
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from cluster.runtime.clock import SystemClock

Call = Callable[[ApiKey, Any], Any]
"""Sends a request and returns its response, as `SocketClient.call` does."""

_NONCE_BYTES: Final = 24
_NOTICED: Final = b"\x01"
"""Upon which a broker ends a login whose token it has refused (RFC 7628)."""


def log_in(call: Call, security: ClientSecurity) -> None:
    """Prove who the client is. Raises UserError with the broker's reason for a refusal."""
    mechanism = security.mechanism
    token = None if security.token is None else security.token.token(SystemClock().wall_ms())
    assert mechanism is not None  # of whatever has SASL
    told = call(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=mechanism.value))
    if told.error_code is not ErrorCode.none:
        offered = ", ".join(told.mechanisms) or "none"
        raise UserError(f"the broker does not offer SASL {mechanism}, but {offered}")
    if token is not None:
        if _exchange(call, first_message(token)):  # why the token is refused
            _exchange(call, _NOTICED)
            raise UserError("the broker refused the token, and did not end the login")
        return
    if mechanism is SaslMechanism.PLAIN:
        _exchange(call, f"\0{security.username}\0{security.password}".encode())
        return
    extensions = {TOKEN_AUTH: "true"} if security.token_auth else {}
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    client = ScramClient(mechanism, security.username, security.password, nonce, extensions)
    try:
        server_first = _exchange(call, client.first_message())
        client.check_server_final(_exchange(call, client.final_message(server_first)))
    except ScramError as problem:
        raise UserError(f"the login as {security.username} failed: {problem}") from None


def _exchange(call: Call, auth_bytes: bytes) -> bytes:
    told = call(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=auth_bytes))
    if told.error_code is not ErrorCode.none:
        raise UserError(told.error_message or told.error_code.name.upper())
    answer: bytes = told.auth_bytes
    return answer
