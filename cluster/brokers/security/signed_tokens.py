"""Signed JSON Web Tokens, verified with the keys of a key set (RFC 7515, RFC 7517, KIP-768).

Pure. Kafka: `OAuthBearerValidatorCallbackHandler`. Only signatures with public keys are accepted: a
secret shared with the broker does not prove who wrote a token.
"""

from collections.abc import Callable, Sequence
from typing import Final

import jwt
from jwt.types import Options

from cluster.brokers.security.oauth_login import TokenRefused, ValidToken
from cluster.brokers.security.token_claims import ClaimRules, valid_token
from cluster.model.clocks import WallMs

_ALGORITHMS: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)
_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_UNCHECKED_BY_PYJWT: Final[Options] = {
    # `valid_token` compares times, with the caller's clock.
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}


class SignedTokens:
    """A `Validator`; `find_key` looks up a key by its id, or the only key for None."""

    def __init__(
        self,
        find_key: Callable[[str | None], jwt.PyJWK | None],
        rules: ClaimRules,
        audiences: Sequence[str],
        issuer: str | None,
    ) -> None:
        self._find_key = find_key
        self._rules = rules
        self._audiences = list(audiences)
        self._issuer = issuer

    def __call__(self, token: str, now_ms: WallMs) -> ValidToken:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise TokenRefused("it is not a JSON Web Token") from None
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
            raise TokenRefused("the token is not signed by an algorithm with public keys (alg)")
        key = self._find_key(header.get("kid"))
        if key is None:
            raise TokenRefused("the key that signed the token is not in the key set (kid)")
        if key.key_type != _KEY_TYPES[algorithm[:2]]:
            raise TokenRefused("the key with that id is for another algorithm (alg)")
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._audiences or None,
                issuer=self._issuer,
                options=_UNCHECKED_BY_PYJWT,
            )
        except jwt.PyJWTError as error:
            raise TokenRefused(f"the token is refused: {_words(error)}") from None
        return valid_token(claims, self._rules, now_ms)


def _words(error: jwt.PyJWTError) -> str:
    """The reason without anything that the token contains."""
    match error:
        case jwt.InvalidSignatureError():
            return "its signature is invalid"
        case jwt.InvalidAudienceError() | jwt.MissingRequiredClaimError(claim="aud"):
            return "it is for another audience (aud)"
        case jwt.InvalidIssuerError() | jwt.MissingRequiredClaimError(claim="iss"):
            return "it has another issuer (iss)"
    return type(error).__name__
