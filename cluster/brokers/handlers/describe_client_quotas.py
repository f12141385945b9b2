"""DescribeClientQuotas (API key 48), versions 0-1.

Answers after reading the registry, so the answer contains every change that a broker has
acknowledged.
v1 flexible.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER_CONFIGS, check
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.coordinator.cluster_store import Quotas
from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import KEY_OF_KIND
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedEntity,
    DescribedEntry,
    DescribedQuota,
)
from cluster.quotas.alteration import FilterComponent, parts_of, selected

API: Final = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1)


def handle(
    request: DescribeClientQuotasRequest, context: RequestContext, services: AdminServices
) -> NotYet | DescribeClientQuotasResponse:
    """Every entity that matches the filter, with its quotas."""
    components = [
        FilterComponent(each.entity_type, each.match_type, each.match)
        for each in request.components
    ]
    try:
        check(services, context, DESCRIBE_CLUSTER_CONFIGS)
        selected({}, components, strict=request.strict)
    except Refused as refused:
        return _refusal(refused.code, refused.detail)

    def on_read(quotas: Quotas) -> None:
        entries = tuple(
            DescribedEntry(
                entity=tuple(
                    DescribedEntity(entity_type=entity_type, entity_name=name)
                    for entity_type, name in parts_of(entity)
                ),
                values=tuple(
                    DescribedQuota(key=KEY_OF_KIND[kind], value=limit)
                    for kind, limit in limits.items()
                ),
            )
            for entity, limits in selected(quotas, components, strict=request.strict)
        )
        context.answer(
            DescribeClientQuotasResponse(
                throttle_time=timedelta(0),
                error_code=ErrorCode.none,
                error_message=None,
                entries=entries,
            )
        )

    services.quota_changes.read(
        on_read,
        lambda error: context.answer(_refusal(ErrorCode.unknown_server_error, repr(error))),
    )
    return PARKED


def _refusal(code: ErrorCode, detail: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        throttle_time=timedelta(0), error_code=code, error_message=detail, entries=None
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(DESCRIBE_CLUSTER_CONFIGS,))
