"""AlterClientQuotas (API key 49), versions 0-1.

Any broker serves it. The answer is sent when the registry has stored the changes; every broker
applies them within a round trip to the registry. Each entry succeeds or fails on its own; an entry
with any mistake changes nothing.
v1 flexible.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER_CONFIGS, may
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.coordinator.cluster_store import outcome_of
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome
from cluster.model.quotas import QuotaEntity
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
)
from cluster.quotas.alteration import changes_of, entity_of

API: Final = Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1)


def handle(
    request: AlterClientQuotasRequest, context: RequestContext, services: AdminServices
) -> NotYet:
    """Check every entry and store the valid ones."""
    may_alter = may(services, context, ALTER_CLUSTER_CONFIGS)
    changes: dict[QuotaEntity, dict[str, str | None]] = {}
    entities: list[QuotaEntity | Refused] = []
    for entry in request.entries:
        if not may_alter:
            entities.append(Refused(ErrorCode.cluster_authorization_failed))
            continue
        try:
            entity = entity_of([(part.entity_type, part.entity_name) for part in entry.entity])
            if entity in changes:
                raise Refused(ErrorCode.invalid_request, f"Quotas of {entity} are altered twice")
            changes[entity] = changes_of(
                entity, ((op.key, op.value, op.remove) for op in entry.ops)
            )
            entities.append(entity)
        except Refused as refused:
            entities.append(refused)

    def on_done(outcomes: dict[QuotaEntity, Outcome]) -> None:
        context.answer(
            AlterClientQuotasResponse(
                throttle_time=timedelta(0),
                entries=tuple(
                    _result(
                        entry,
                        outcome_of(entity) if isinstance(entity, Refused) else outcomes[entity],
                    )
                    for entry, entity in zip(request.entries, entities, strict=True)
                ),
            )
        )

    services.quota_changes.alter(changes, on_done, is_dry=request.validate_only)
    return PARKED


def _result(entry: QuotaAlteration, outcome: Outcome) -> QuotaAlterationResult:
    return QuotaAlterationResult(
        error_code=outcome.code, error_message=outcome.detail, entity=entry.entity
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_CLUSTER_CONFIGS,))
