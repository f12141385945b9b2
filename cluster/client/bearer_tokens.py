"""Tokens that a client logs in with by OAUTHBEARER: from a file, or unsecured ones for tests.

No text of a token is in a message, nor in the text of what makes it.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cluster.model.clocks import WallMs
from cluster.model.errors import UserError

LIFETIME_S: Final = 3_600
"""Of an unsecured token (Java: `unsecuredLoginLifetimeSeconds`)."""
_OPAQUE_S: Final = 300
"""A token that does not say when it ends is read again after so long."""
_is_token: Final = re.compile(r"[-_.a-zA-Z0-9]+").fullmatch


class BearerToken(NamedTuple):
    """A token, and when it ends, in seconds since the epoch."""

    text: str
    ends_at_s: float


class TokenSource(Protocol):
    """Where a client has its tokens from."""

    def token(self, now_ms: WallMs) -> BearerToken:
        """The token for a login that begins now. Raises UserError."""
        ...


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that somebody keeps up to date: it is read for each login."""

    path: Path

    def token(self, now_ms: WallMs) -> BearerToken:
        try:
            text = self.path.read_text("utf-8", "replace").strip()
        except OSError as problem:
            raise UserError(f"cannot read the token in {self.path}: {problem.strerror}") from None
        if not _is_token(text):
            raise UserError(f"{self.path} holds no token")
        return BearerToken(text, _end_of(text, now_ms))


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """Tokens that anybody can write, for brokers that take such (RFC 7515 appendix A.5)."""

    user: str
    lifetime_s: int = LIFETIME_S

    def token(self, now_ms: WallMs) -> BearerToken:
        now_s = now_ms // 1_000
        ends_at_s = now_s + self.lifetime_s
        claims = {"sub": self.user, "iat": now_s, "exp": ends_at_s}
        return BearerToken(f"{_part({'alg': 'none'})}.{_part(claims)}.", ends_at_s)


def first_message(token: BearerToken) -> bytes:
    """What a client says first (RFC 7628)."""
    return b"n,,\x01auth=Bearer " + token.text.encode("ascii") + b"\x01\x01"


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii").rstrip("=")


def _end_of(text: str, now_ms: WallMs) -> float:
    """When a token ends; those that are no JSON Web Tokens do not say it."""
    parts = text.split(".")
    try:
        part = parts[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error, RecursionError):
        return now_ms / 1_000 + _OPAQUE_S
