"""DescribeDelegationToken (API key 41), versions 1-3.

Any broker serves it, from its own copy of the tokens.
v2 flexible; v3 the requester of each token (KIP-373).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_TOKEN, DESCRIBE_TOKENS, may
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.handlers.token_requests import may_ask, principal_of, split
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

API: Final = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3)


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext, services: SecurityServices
) -> DescribeDelegationTokenResponse:
    """The tokens that the client may see, of the given owners and renewers or of all users."""
    if not may_ask(services, context):
        return _response(ErrorCode.delegation_token_request_not_allowed)
    if not services.tokens.is_enabled:
        return _response(ErrorCode.delegation_token_auth_disabled)
    principal = principal_of(context)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}

    def is_shown(token: DelegationToken) -> bool:
        if owners is not None and owners.isdisjoint(token.concerned):
            return False
        return (
            token.concerns(principal)
            or may(services, context, DESCRIBE_TOKEN, token.token_id)
            or may(services, context, DESCRIBE_TOKENS, token.owner)
        )

    return _response(
        ErrorCode.none,
        tuple(
            _described(token, services.tokens.hmac_of(token))
            for token in services.tokens.tokens()
            if is_shown(token)
        ),
    )


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    owner_type, owner = split(token.owner)
    requester_type, requester = split(token.requester)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issued_at,
        expiry_timestamp=token.expires_at,
        max_timestamp=token.max_at,
        token_id=token.token_id,
        hmac=hmac,
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(split, token.renewers)
        ),
    )


def _response(
    error: ErrorCode, tokens: tuple[DescribedDelegationToken, ...] = ()
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(
        error_code=error, tokens=tokens, throttle_time=timedelta(0)
    )


HANDLER: Final = adapted(
    API, handle, SecurityServices, authorizes=(DESCRIBE_TOKEN, DESCRIBE_TOKENS)
)
