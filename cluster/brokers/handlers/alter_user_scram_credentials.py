"""AlterUserScramCredentials (API key 51), version 0.

The controller serves it, as in Kafka. Each user succeeds or fails on its own; if one alteration of
a user is invalid, none of that user's is applied. The request contains salted passwords, so the
broker does no expensive hashing.
"""

from collections import Counter
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER, may
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.model.scram import (
    MAX_ITERATIONS,
    MECHANISM_CODES,
    MIN_ITERATIONS,
    ScramCredential,
    credential_of_salted,
)
from cluster.model.security import SaslMechanism
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

API: Final = Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0)
_MECHANISMS: Final = {code: mechanism for mechanism, code in MECHANISM_CODES.items()}


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext, services: SecurityServices
) -> AlterUserScramCredentialsResponse | NotYet:
    """Check the alterations of each user and store the valid ones."""
    named = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    users = list(dict.fromkeys(named))
    if not services.controller.is_active:
        return _response(dict.fromkeys(users, Outcome(ErrorCode.not_controller)))
    if not may(services, context, ALTER_CLUSTER):
        denied = Outcome(ErrorCode.cluster_authorization_failed, "Cluster authorization failed.")
        return _response(dict.fromkeys(users, denied))
    refused = _refused(request)
    changes: dict[str, dict[SaslMechanism, ScramCredential | None]] = {
        user: {} for user in users if user not in refused
    }
    for deletion in request.deletions:
        if deletion.name in changes:
            changes[deletion.name][_MECHANISMS[deletion.mechanism]] = None
    for upsertion in request.upsertions:
        if upsertion.name in changes:
            mechanism = _MECHANISMS[upsertion.mechanism]
            changes[upsertion.name][mechanism] = _credential(mechanism, upsertion)

    def on_done(outcomes: dict[str, Outcome]) -> None:
        context.answer(_response({user: (refused | outcomes)[user] for user in users}))

    services.credentials.alter(changes, on_done)
    return PARKED


def _credential(mechanism: SaslMechanism, asked: ScramCredentialUpsertion) -> ScramCredential:
    return credential_of_salted(mechanism, asked.salted_password, asked.salt, asked.iterations)


def _refused(request: AlterUserScramCredentialsRequest) -> dict[str, Outcome]:
    """The users with an invalid alteration."""
    refused: dict[str, Outcome] = {}
    items: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...]
    items = (*request.deletions, *request.upsertions)
    for item in items:
        if not item.name:
            refused[item.name] = _unacceptable("Username must not be empty")
        elif item.mechanism not in _MECHANISMS:
            refused[item.name] = Outcome(
                ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"
            )
        elif isinstance(item, ScramCredentialUpsertion) and item.iterations > MAX_ITERATIONS:
            refused[item.name] = _unacceptable("Too many iterations")
        elif isinstance(item, ScramCredentialUpsertion) and item.iterations < MIN_ITERATIONS:
            refused[item.name] = _unacceptable("Too few iterations")
    for (user, _), times in Counter((each.name, each.mechanism) for each in items).items():
        if times > 1 and user not in refused:
            refused[user] = Outcome(
                ErrorCode.duplicate_resource,
                "A user credential cannot be altered twice in the same request",
            )
    return refused


def _unacceptable(why: str) -> Outcome:
    return Outcome(ErrorCode.unacceptable_credential, why)


def _response(outcomes: dict[str, Outcome]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        throttle_time=timedelta(0),
        results=tuple(
            AlterUserScramCredentialsResult(
                user=user, error_code=outcome.code, error_message=outcome.detail
            )
            for user, outcome in outcomes.items()
        ),
    )


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=(ALTER_CLUSTER,))
