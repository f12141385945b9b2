"""One exchange of a SASL mechanism, as the login drives it. Pure."""

from typing import NamedTuple, Protocol

from cluster.model.clocks import WallMs


class Proof(NamedTuple):
    """The client has proved who it is."""

    user: str
    answer: bytes
    """The last token for the client."""
    expires_at: WallMs | None = None
    """When what it logged in with expires; None where that has no end."""
    has_token: bool = False
    """Whether it logged in with a delegation token (KIP-48)."""


class LoginFailed(Exception):
    """The client has not proved who it is."""

    def __init__(self, reason: str, told: str | None = None) -> None:
        """`reason` is for the log, without secrets; `told` for the client, None for Kafka's words
        that fit any cause and tell nothing about users.
        """
        super().__init__(reason)
        self.reason = reason
        self.told = told


class Exchange(Protocol):
    """The server's side of one attempt; constant work for each token."""

    def respond(self, token: bytes, now_ms: WallMs) -> bytes | Proof:
        """The next challenge, or the proof. Raises LoginFailed, after which it is not used."""
        ...
