"""Unsecured JSON Web Tokens, which anybody can write (RFC 7515 appendix A.5). For tests only.

Pure. Kafka: `OAuthBearerUnsecuredValidatorCallbackHandler` and its JAAS options.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from cluster.brokers.security.oauth_login import TokenRefused, ValidToken
from cluster.brokers.security.token_claims import ClaimRules, valid_token
from cluster.model.clocks import WallMs


class UnsecuredTokens:
    """A `Validator`."""

    def __init__(self, rules: ClaimRules) -> None:
        self._rules = rules

    def __call__(self, token: str, now_ms: WallMs) -> ValidToken:
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenRefused(
                "an unsecured token must have two parts, then a dot and no signature"
            )
        if _json_of(parts[0]).get("alg") != "none":
            raise TokenRefused("an unsecured token must have the algorithm none (alg)")
        return valid_token(_json_of(parts[1]), self._rules, now_ms)


def rules_of(options: Mapping[str, str]) -> ClaimRules:
    """Reads the options of the login module. Raises ValueError for a skew that is not a number."""
    prefix = "unsecuredValidator"
    return ClaimRules(
        options.get(f"{prefix}PrincipalClaimName", "sub"),
        options.get(f"{prefix}ScopeClaimName", "scope"),
        options.get(f"{prefix}RequiredScope", "").split(),
        int(options.get(f"{prefix}AllowableClockSkewMs", "0")),
    )


def _json_of(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise TokenRefused("a part of the token is not JSON in Base64") from None
    if not isinstance(found, dict):
        raise TokenRefused("a part of the token is not a JSON object")
    return found
