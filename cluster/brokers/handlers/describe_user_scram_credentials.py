"""DescribeUserScramCredentials (API key 50), version 0.

Answers at once that there are no credentials: Kafka's config tool asks whenever users are
described. Setting them (51) is not done.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

API: Final = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)


def handle(
    request: DescribeUserScramCredentialsRequest, _context: RequestContext, _services: object
) -> DescribeUserScramCredentialsResponse:
    """RESOURCE_NOT_FOUND for each user that is named."""
    names = list(dict.fromkeys(user.name for user in request.users or ()))
    return DescribeUserScramCredentialsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            DescribeUserScramCredentialsResult(
                user=name,
                error_code=ErrorCode.resource_not_found,
                error_message=f"Attempt to describe a user credential that does not exist: {name}",
                credential_infos=(),
            )
            for name in names
        ),
    )


HANDLER: Final = adapted(API, handle)
