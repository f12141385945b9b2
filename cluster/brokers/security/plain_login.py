"""SASL/PLAIN: user and password in one message (RFC 4616; Kafka: `PlainSaslServer`). Pure."""

import hmac
from collections.abc import Mapping
from typing import Final

from cluster.brokers.security.exchange import LoginFailed, Proof
from cluster.model.clocks import WallMs

WRONG_PASSWORD: Final = "Authentication failed: Invalid username or password"
OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class PlainExchange:
    """`passwords` are those of the listener by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def respond(self, token: bytes, _now_ms: WallMs) -> Proof:
        """Checks an unknown user by the same steps as a wrong password."""
        parts = token.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise LoginFailed("a PLAIN message must have an identity, a user and a password")
        try:
            identity, user = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError:
            raise LoginFailed("the user of a PLAIN message is not UTF-8") from None
        password = self._passwords.get(user)
        is_right = hmac.compare_digest((password or "").encode(), parts[2])
        if not is_right or password is None:
            raise LoginFailed("invalid user name or password", WRONG_PASSWORD, user=user)
        if identity not in ("", user):
            raise LoginFailed(
                "the client requested another authorization id", OTHER_IDENTITY, user=user
            )
        return Proof(user, b"")
