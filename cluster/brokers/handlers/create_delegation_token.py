"""CreateDelegationToken (API key 38), versions 1-3.

Any broker serves it. The answer is sent when the registry has the token.
v2 flexible; v3 tokens for another owner (KIP-373).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import CREATE_TOKENS, may
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.handlers.token_requests import (
    PRINCIPAL_TYPE,
    may_ask,
    milliseconds,
    principal_of,
    split,
    timestamp,
)
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

API: Final = Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3)


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext, services: SecurityServices
) -> CreateDelegationTokenResponse | NotYet:
    """Create a token for the client, or for another user if the client has the right to."""
    requester = owner = principal_of(context)
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"

    def answer(error: ErrorCode, token: DelegationToken | None) -> CreateDelegationTokenResponse:
        return CreateDelegationTokenResponse(
            error_code=error,
            principal_type=split(owner)[0],
            principal_name=split(owner)[1],
            token_requester_principal_type=split(requester)[0],
            token_requester_principal_name=split(requester)[1],
            issue_timestamp=None if token is None else timestamp(token.issued_at),
            expiry_timestamp=None if token is None else timestamp(token.expires_at),
            max_timestamp=None if token is None else timestamp(token.max_at),
            token_id="" if token is None else token.token_id,
            hmac=b"" if token is None else services.tokens.hmac_of(token),
            throttle_time=timedelta(0),
        )

    types = {each.principal_type for each in request.renewers} | {split(owner)[0]}
    if not may_ask(services, context):
        return answer(ErrorCode.delegation_token_request_not_allowed, None)
    if owner != requester and not may(services, context, CREATE_TOKENS, owner):
        return answer(ErrorCode.delegation_token_authorization_failed, None)
    if types != {PRINCIPAL_TYPE}:
        return answer(ErrorCode.invalid_principal_type, None)
    services.tokens.create(
        owner,
        requester,
        [f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        milliseconds(request.max_lifetime),
        lambda error, token: context.answer(answer(error, token)),
    )
    return PARKED


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=(CREATE_TOKENS,))
