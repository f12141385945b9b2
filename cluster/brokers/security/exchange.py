"""One exchange of a SASL mechanism, as the login drives it. Pure."""

from typing import NamedTuple, Protocol

from cluster.model.clocks import WallMs


class Proof(NamedTuple):
    """The client has authenticated."""

    user: str
    answer: bytes
    """The last token for the client."""
    expires_at: WallMs | None = None
    """When the credentials of this login expire; None if they do not."""
    has_token: bool = False
    """Whether the client used a delegation token (KIP-48)."""


class LoginFailed(Exception):
    """The client has failed to authenticate."""

    def __init__(self, reason: str, told: str | None = None, *, user: str | None = None) -> None:
        """`reason` is for the log and contains no secret. `told` is the error message for the
        client; None stands for Kafka's general message, which reveals nothing about users. `user`
        is the name that the client claims, which may contain any characters; None if unknown.
        """
        super().__init__(reason)
        self.reason = reason
        self.told = told
        self.user = user


class Exchange(Protocol):
    """The server's side of one login attempt. Each token takes constant work."""

    def respond(self, token: bytes, now_ms: WallMs) -> bytes | Proof:
        """The next challenge, or the proof. Raises LoginFailed and must not be used after that."""
        ...
