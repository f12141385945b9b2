"""RenewDelegationToken (API key 39), versions 1-2.

Any broker serves it, for the token's owner and its renewers.
v2 flexible.
"""

from typing import Final

from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.handlers.token_requests import CHANGED_BY_OWNERS, change_end
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import RenewDelegationTokenRequest, RenewDelegationTokenResponse

API: Final = Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2)


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext, services: SecurityServices
) -> RenewDelegationTokenResponse | NotYet:
    """Extend the expiry time of the token with that HMAC."""
    return change_end(
        context,
        services,
        services.tokens.renew,
        request.hmac,
        request.renew_period,
        lambda error, ends_at, throttle: RenewDelegationTokenResponse(
            error_code=error, expiry_timestamp=ends_at, throttle_time=throttle
        ),
    )


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=CHANGED_BY_OWNERS)
