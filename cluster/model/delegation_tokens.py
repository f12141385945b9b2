"""Delegation tokens: short-lived secrets by which others act as a user (KIP-48). Pure.

Kafka: `DelegationTokenManager`. Principals are texts, `User:alice`.
"""

import base64
import hmac
from typing import NamedTuple

from cluster.model.clocks import WallMs


class DelegationToken(NamedTuple):
    """What is stored of a token; its secret is computed."""

    token_id: str
    owner: str
    """As whom its bearer acts."""
    requester: str
    """Who had it made (KIP-373)."""
    renewers: tuple[str, ...]
    """Who else may renew it."""
    issued_at: WallMs
    max_at: WallMs
    """It cannot be renewed beyond."""
    expires_at: WallMs

    def is_expired(self, now_ms: WallMs) -> bool:
        """Whether it is of no use any more."""
        return self.max_at < now_ms or self.expires_at < now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether it is the owner's or a renewer's."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether it is shown to them without a right: also to who had it made for the owner
        (Kafka: `TokenInformation.ownerOrRenewer`).
        """
        return principal in self.concerned

    @property
    def concerned(self) -> tuple[str, ...]:
        """All that it concerns."""
        return (self.requester, self.owner, *self.renewers)


def token_hmac(secret: str, token_id: str) -> bytes:
    """The secret of a token, by the secret of the cluster (`delegation.token.secret.key`)."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """What its bearer logs in with."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()
