"""Reads the claims of a JSON Web Token (RFC 7519). Pure."""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from cluster.brokers.security.oauth_login import TokenRefused, ValidToken
from cluster.model.clocks import WallMs

_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, the latest session end that can be sent to a client."""


class ClaimRules(NamedTuple):
    """The names of claims, and their required values."""

    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: Collection[str] = ()
    clock_skew_ms: int = 0
    needs_issue_time: bool = False


def valid_token(claims: Mapping[str, Any], rules: ClaimRules, now_ms: WallMs) -> ValidToken:
    """The bearer of a token with these claims, and its expiry. Raises TokenRefused."""
    expires_at = _time(claims, "exp")
    if expires_at is None:
        raise TokenRefused("the token has no expiry time (exp)")
    if now_ms > expires_at + rules.clock_skew_ms:
        raise TokenRefused("the token has expired (exp)")
    issued_at = _time(claims, "iat")
    if issued_at is None and rules.needs_issue_time:
        raise TokenRefused("the token does not say when it was issued (iat)")
    if issued_at is not None and issued_at > expires_at:
        raise TokenRefused("the token expires before it was issued (iat)")
    begins_at = _time(claims, "nbf")
    if begins_at is not None and now_ms < begins_at - rules.clock_skew_ms:
        raise TokenRefused("the token is not valid yet (nbf)")
    _check_scopes(claims.get(rules.scope_claim), rules)
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip() or not _is_text(user):
        raise TokenRefused(f"the token names no user ({rules.user_claim})")
    return ValidToken(user.strip(), WallMs(min(expires_at, _LAST_MS)))


def _is_text(user: str) -> bool:
    """Whether a name can be encoded: a JSON string may contain half of a surrogate pair."""
    try:
        user.encode()
    except UnicodeEncodeError:
        return False
    return True


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """A time in milliseconds; claims have seconds, possibly with a fraction."""
    seconds = claims.get(name)
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TokenRefused(f"a time in the token is not a number ({name})")
    try:
        return int(seconds * 1_000)
    except (OverflowError, ValueError):
        raise TokenRefused(f"a time in the token is not a number ({name})") from None


def _check_scopes(claim: Any, rules: ClaimRules) -> None:
    scopes: Any = claim.split() if isinstance(claim, str) else claim
    if scopes is None:
        scopes = []
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        raise TokenRefused(f"the scopes of the token are not strings ({rules.scope_claim})")
    missing = [each for each in rules.required_scopes if each not in scopes]
    if missing:
        raise TokenRefused(
            "the token lacks a scope", "insufficient_scope", " ".join(rules.required_scopes)
        )
