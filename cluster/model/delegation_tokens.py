"""Delegation tokens: short-lived secrets that let others act as a user (KIP-48). Pure.

Kafka: `DelegationTokenManager`. Principals are texts such as `User:alice`.
"""

import base64
import hmac
from typing import NamedTuple

from cluster.model.clocks import WallMs
from cluster.model.scram import ScramCredential


class DelegationToken(NamedTuple):
    """The stored fields of a token; its secret is computed."""

    token_id: str
    owner: str
    """The user that its bearer acts as."""
    requester: str
    """The user who requested it (KIP-373)."""
    renewers: tuple[str, ...]
    """Other users who may renew it."""
    issued_at: WallMs
    max_at: WallMs
    """The time beyond which it cannot be renewed."""
    expires_at: WallMs

    def is_expired(self, now_ms: WallMs) -> bool:
        """Whether the token has expired."""
        return self.max_at < now_ms or self.expires_at < now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether the principal is its owner or a renewer."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether the principal may see the token without a right.

        This includes the requester (Kafka: `TokenInformation.ownerOrRenewer`).
        """
        return principal in self.concerned

    @property
    def concerned(self) -> tuple[str, ...]:
        """All principals that it concerns."""
        return (self.requester, self.owner, *self.renewers)


class KnownToken(NamedTuple):
    """A delegation token for a login by SCRAM."""

    owner: str
    expires_at: WallMs
    credential: ScramCredential


def token_hmac(secret: str, token_id: str) -> bytes:
    """The secret of a token, derived from the cluster's secret (`delegation.token.secret.key`)."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """The password of its bearer."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()
