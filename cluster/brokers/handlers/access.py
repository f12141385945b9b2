"""Authorization checks for handlers, and the Kafka error for each denied resource type."""

from collections.abc import Iterable
from typing import Final

from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import Services
from cluster.model.acls import CLUSTER_NAME, AclOperation, ResourceType, Right
from cluster.model.errors import ErrorCode, Refused

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ_TOPIC: Final = Right(AclOperation.READ, _TOPIC)
WRITE_TOPIC: Final = Right(AclOperation.WRITE, _TOPIC)
CREATE_TOPIC: Final = Right(AclOperation.CREATE, _TOPIC)
DELETE_TOPIC: Final = Right(AclOperation.DELETE, _TOPIC)
ALTER_TOPIC: Final = Right(AclOperation.ALTER, _TOPIC)
DESCRIBE_TOPIC: Final = Right(AclOperation.DESCRIBE, _TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = Right(AclOperation.DESCRIBE_CONFIGS, _TOPIC)
ALTER_TOPIC_CONFIGS: Final = Right(AclOperation.ALTER_CONFIGS, _TOPIC)
READ_GROUP: Final = Right(AclOperation.READ, _GROUP)
DELETE_GROUP: Final = Right(AclOperation.DELETE, _GROUP)
DESCRIBE_GROUP: Final = Right(AclOperation.DESCRIBE, _GROUP)
DESCRIBE_GROUP_CONFIGS: Final = Right(AclOperation.DESCRIBE_CONFIGS, _GROUP)
ALTER_GROUP_CONFIGS: Final = Right(AclOperation.ALTER_CONFIGS, _GROUP)
CREATE_ON_CLUSTER: Final = Right(AclOperation.CREATE, _CLUSTER)
ALTER_CLUSTER: Final = Right(AclOperation.ALTER, _CLUSTER)
DESCRIBE_CLUSTER: Final = Right(AclOperation.DESCRIBE, _CLUSTER)
CLUSTER_ACTION: Final = Right(AclOperation.CLUSTER_ACTION, _CLUSTER)
DESCRIBE_CLUSTER_CONFIGS: Final = Right(AclOperation.DESCRIBE_CONFIGS, _CLUSTER)
ALTER_CLUSTER_CONFIGS: Final = Right(AclOperation.ALTER_CONFIGS, _CLUSTER)
IDEMPOTENT_WRITE: Final = Right(AclOperation.IDEMPOTENT_WRITE, _CLUSTER)
CREATE_TOKENS: Final = Right(AclOperation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS: Final = Right(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)
DESCRIBE_TOKEN: Final = Right(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
WRITE_TRANSACTIONAL_ID: Final = Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)

NOT_ALLOWED: Final = {
    _TOPIC: ErrorCode.topic_authorization_failed,
    _GROUP: ErrorCode.group_authorization_failed,
    _CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    ResourceType.DELEGATION_TOKEN: ErrorCode.delegation_token_authorization_failed,
}
"""The error message for each resource type when a right on it is missing."""
_WORDS: Final = {
    kind: f"{' '.join(part.capitalize() for part in kind.name.split('_'))} authorization failed."
    for kind in NOT_ALLOWED
}


def may(
    services: Services,
    context: RequestContext,
    right: Right,
    name: str = CLUSTER_NAME,
    *,
    is_audited: bool = True,
) -> bool:
    """Whether the client has a right on the resource of that name.

    With `is_audited` False a denial is not logged, because another right may suffice.
    """
    authorizer = services.authorizer
    return authorizer is None or authorizer.allows(
        context.user, context.host, *right, name, is_audited=is_audited
    )


def check(
    services: Services, context: RequestContext, right: Right, name: str = CLUSTER_NAME
) -> None:
    if not may(services, context, right, name):
        raise Refused(NOT_ALLOWED[right.resource_type], _WORDS[right.resource_type])


def allowed_among(
    services: Services,
    context: RequestContext,
    right: Right,
    names: Iterable[str],
    *,
    is_audited: bool = True,
) -> set[str]:
    """The distinct names on which the client has the right."""
    distinct = set(names)
    if services.authorizer is None:
        return distinct
    return {name for name in distinct if may(services, context, right, name, is_audited=is_audited)}
