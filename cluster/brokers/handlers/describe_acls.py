"""DescribeAcls (API key 29), versions 1-3.

Answers with the rules that this broker applies. SECURITY_DISABLED without an authorizer.
v1 name patterns (KIP-290); v2 flexible; v3 resource type USER (KIP-373).
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER
from cluster.brokers.handlers.acl_requests import acls_for, filter_of
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.coordinator.cluster_store import StoredAcls
from cluster.model.acls import AclFilter, ResourcePattern
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from cluster.protocol.messages.describe_acls import (
    write_acl_description,
    write_describe_acls_resource,
)
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.DESCRIBE_ACLS, 1, 3)

_LOOKED_AT_PER_STEP: Final = 100
"""The number of patterns and rules examined in one step; examining 10,000 rules takes about 40 ms.
"""
_STEPS_AT_ONCE: Final = 5

_Stored = Sequence[tuple[ResourcePattern, StoredAcls]]


class _Resources:
    """The encoded resources of an answer."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._count = 0

    def gather(self, stored: _Stored, wanted: AclFilter, version: int) -> Iterator[None]:
        """Add the rules that match the filter, in short steps."""
        looked_at = count(1)
        for pattern, acls in stored:
            if next(looked_at) % _LOOKED_AT_PER_STEP == 0:
                yield
            if not wanted.selects_pattern(pattern):
                continue
            content = bytearray()
            selected = 0
            for entry in sorted(acls.entries):
                if next(looked_at) % _LOOKED_AT_PER_STEP == 0:
                    yield
                if wanted.selects_entry(entry):
                    description = AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    write_acl_description(content, description, version)
                    selected += 1
            if selected:
                resource = DescribeAclsResource(
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    pattern_type=pattern.pattern_type,
                    acls=EncodedItems(selected, content),
                )
                write_describe_acls_resource(self._content, resource, version)
                self._count += 1

    def answer(self) -> DescribeAclsResponse:
        return _response(ErrorCode.none, None, EncodedItems(self._count, self._content))


def handle(
    request: DescribeAclsRequest, context: RequestContext, services: SecurityServices
) -> DescribeAclsResponse | NotYet:
    """The rules that match the filter, by resource pattern. A large answer is built in slices."""
    try:
        stored = acls_for(services, context, DESCRIBE_CLUSTER).stored()
        wanted = filter_of(request)
    except Refused as refused:
        return _response(refused.code, refused.detail or None, EncodedItems(0, b""))
    found = _Resources()
    steps = found.gather(stored, wanted, context.version)
    for _ in range(_STEPS_AT_ONCE):
        if next(steps, steps) is steps:
            return found.answer()
    services.slices.start(_answer_later(steps, found, context))
    return PARKED


def _answer_later(
    steps: Iterator[None], found: _Resources, context: RequestContext
) -> Iterator[None]:
    yield from steps
    context.answer(found.answer())


def _response(code: ErrorCode, detail: str | None, resources: EncodedItems) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        throttle_time=timedelta(0), error_code=code, error_message=detail, resources=resources
    )


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=(DESCRIBE_CLUSTER,))
