"""SASL/OAUTHBEARER: a bearer token in one message (RFC 7628, KIP-255; `OAuthBearerSaslServer`).

Pure. A `Validator` checks the token. A refused token is answered with a line of JSON, which the
client acknowledges by one more message before the login fails.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Final, NamedTuple

from cluster.brokers.security.exchange import LoginFailed, Proof
from cluster.model.clocks import WallMs

_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_first_message: Final = re.compile(
    rf"n,(?:a=(?P<identity>{_SASL_NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
).fullmatch
_authorization: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)").fullmatch
_NOTICED: Final = b"\x01"


class ValidToken(NamedTuple):
    """The identity that a token proves, and until when."""

    user: str
    expires_at: WallMs


class TokenRefused(Exception):
    """A token was not accepted; `reason` is for the log and quotes nothing of the token."""

    def __init__(
        self, reason: str, status: str = "invalid_token", scope: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.scope = scope


Validator = Callable[[str, WallMs], ValidToken]
"""Checks a token at a given time of day. Raises TokenRefused."""


class OAuthExchange:
    """The server's side of a login with a bearer token (RFC 7628)."""

    def __init__(self, validate: Validator) -> None:
        self._validate = validate
        self._refused: LoginFailed | None = None

    def respond(self, message: bytes, now_ms: WallMs) -> bytes | Proof:
        if self._refused is not None:
            if message == _NOTICED:
                raise self._refused
            raise LoginFailed("the client continued after its token was refused")
        identity, token = _parsed(message)
        try:
            valid = self._validate(token, now_ms)
        except TokenRefused as refused:
            told = {"status": refused.status}
            if refused.scope is not None:
                told["scope"] = refused.scope
            answer = json.dumps(told, separators=(",", ":"))
            self._refused = LoginFailed(
                refused.reason, answer, user=identity or _claimed_user(token)
            )
            return answer.encode()
        if identity not in ("", valid.user):
            raise LoginFailed(
                "the client requested another authorization id",
                "Authentication failed: Client requested an authorization id that is different from"
                " the token's principal name",
                user=valid.user,
            )
        return Proof(valid.user, b"", valid.expires_at)


def _claimed_user(token: str) -> str | None:
    """The subject of a refused token, which proves nothing; None if it cannot be read."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(urlsafe_b64decode(f"{part}{'=' * (-len(part) % 4)}"))
    except (ValueError, RecursionError):
        return None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) and subject else None


def _parsed(message: bytes) -> tuple[str, str]:
    """The authorization id that the client asks for (empty for its own) and its token. Raises
    LoginFailed.
    """
    match = _first_message(message.decode("latin-1"))
    if match is None:
        raise LoginFailed("invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    authorization = _authorization(pairs.get("auth", ""))
    if authorization is None or authorization["scheme"].lower() != "bearer":
        raise LoginFailed("an OAUTHBEARER message has no bearer token")
    identity = (match["identity"] or "").replace("=2C", ",").replace("=3D", "=")
    return identity, authorization["token"]
