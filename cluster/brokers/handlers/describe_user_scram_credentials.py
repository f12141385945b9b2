"""DescribeUserScramCredentials (API key 50), version 0.

Any broker serves it, reading the registry. The answer contains mechanisms and iteration counts,
nothing that would allow checking a password.
"""

from collections import Counter
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER, may
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.coordinator.cluster_store import Credentials
from cluster.model.errors import ErrorCode
from cluster.model.scram import MECHANISM_CODES
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredential,
)

API: Final = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)


def handle(
    request: DescribeUserScramCredentialsRequest,
    context: RequestContext,
    services: SecurityServices,
) -> DescribeUserScramCredentialsResponse | NotYet:
    """The credentials of the given users, or of all users."""
    if not may(services, context, DESCRIBE_CLUSTER):
        return _response(
            ErrorCode.cluster_authorization_failed, "Cluster authorization failed.", []
        )
    asked = [user.name for user in request.users or ()]

    def on_read(stored: Credentials) -> None:
        times = Counter(asked)
        names = sorted(stored) if not asked else list(times)
        results = [_result(name, stored, times[name]) for name in names]
        context.answer(_response(ErrorCode.none, None, results))

    def on_failed(error: Exception) -> None:
        detail = f"the registry did not answer: {error!r}"
        context.answer(_response(ErrorCode.unknown_server_error, detail, []))

    services.credentials.read(on_read, on_failed)
    return PARKED


def _result(name: str, stored: Credentials, times: int) -> DescribeUserScramCredentialsResult:
    own = stored.get(name, {})
    error, detail = ErrorCode.none, None
    if times > 0 and not name:
        error, detail = ErrorCode.resource_not_found, "Username must not be empty"
    elif times > 1:
        error = ErrorCode.duplicate_resource
        detail = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif not own:
        error = ErrorCode.resource_not_found
        detail = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=error,
        error_message=detail,
        credential_infos=tuple(
            ScramCredential(mechanism=MECHANISM_CODES[mechanism], iterations=credential.iterations)
            for mechanism, credential in own.items()
            if error is ErrorCode.none
        ),
    )


def _response(
    error: ErrorCode, detail: str | None, results: list[DescribeUserScramCredentialsResult]
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        throttle_time=timedelta(0), error_code=error, error_message=detail, results=tuple(results)
    )


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=(DESCRIBE_CLUSTER,))
