"""Asks a cluster for client quotas, and to change them (KIP-546)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import QuotaEntity
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    AlterClientQuotasRequest,
    AlteredEntity,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaFilterComponent,
    QuotaOperation,
)
from cluster.quotas.alteration import FilterComponent, entity_of, parts_of


class Caller(Protocol):
    """The part of a client that the functions of this module use."""

    def call(self, api_key: ApiKey, request: Any) -> Any:
        """Send a request and return the response."""
        ...


def alter_quotas(client: Caller, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Change quotas of one entity; a value of None removes that quota. Raises Refused.

    `changes` has Kafka's keys, such as `producer_byte_rate` (bytes/s per broker).
    """
    request = AlterClientQuotasRequest(
        entries=(
            QuotaAlteration(
                entity=tuple(
                    AlteredEntity(entity_type=entity_type, entity_name=name)
                    for entity_type, name in parts_of(entity)
                ),
                ops=tuple(
                    QuotaOperation(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes.items()
                ),
            ),
        ),
        validate_only=False,
    )
    for entry in client.call(ApiKey.ALTER_CLIENT_QUOTAS, request).entries:
        if entry.error_code is not ErrorCode.none:
            raise Refused(entry.error_code, entry.error_message or "")


def describe_quotas(
    client: Caller, components: Sequence[FilterComponent] = (), *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of every entity that matches, by Kafka's key. Raises Refused."""
    answer = client.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        DescribeClientQuotasRequest(
            components=tuple(
                QuotaFilterComponent(
                    entity_type=each.entity_type, match_type=each.match_type, match=each.match
                )
                for each in components
            ),
            strict=strict,
        ),
    )
    if answer.error_code is not ErrorCode.none:
        raise Refused(answer.error_code, answer.error_message or "")
    return {
        entity_of([(part.entity_type, part.entity_name) for part in entry.entity]): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries or ()
    }
