"""ExpireDelegationToken (API key 40), versions 1-2.

Any broker serves it, for the token's owner and its renewers.
v2 flexible.
"""

from typing import Final

from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.handlers.token_requests import CHANGED_BY_OWNERS, change_end
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

API: Final = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2)


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext, services: SecurityServices
) -> ExpireDelegationTokenResponse | NotYet:
    """Change the expiry time of the token with that HMAC."""
    return change_end(
        context,
        services,
        services.tokens.expire,
        request.hmac,
        request.expiry_time_period,
        lambda error, ends_at, throttle: ExpireDelegationTokenResponse(
            error_code=error, expiry_timestamp=ends_at, throttle_time=throttle
        ),
    )


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=CHANGED_BY_OWNERS)
