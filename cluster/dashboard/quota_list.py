"""The configured quotas, of known clients and of others, as the page lists them."""

from collections.abc import Mapping
from typing import Any, Final

from cluster.dashboard.quota_command import quota_command
from cluster.dashboard.sources import Json
from cluster.model.quotas import DEFAULT, QUOTA_KEYS, QuotaEntity

QUOTAS_MAX: Final = 1_000
"""Entities in one response; if there are more, the first by name."""


def quota_list(program: str, found: Mapping[QuotaEntity, Mapping[str, float]]) -> Json:
    """`quotas`: each entity's parts as `Sources.alter_quota` takes them, its name for a person, and
    its limits by Kafka's keys, each with the command line that removes it. Pure.
    """
    entities = sorted(found, key=_order)
    return {
        "quotas": [_row(program, entity, found[entity]) for entity in entities[:QUOTAS_MAX]],
        "left_out": max(0, len(entities) - QUOTAS_MAX),
    }


def _row(program: str, entity: QuotaEntity, limits: Mapping[str, float]) -> dict[str, Any]:
    parts = {
        kind: None if name is DEFAULT else str(name)
        for kind, name in (
            ("user", entity.user),
            ("client-id", entity.client_id),
            ("ip", entity.ip),
        )
        if name is not None
    }
    return {
        "entity": parts,
        "name": str(entity),
        "limits": [
            {
                "key": key,
                "quota": QUOTA_KEYS[key],
                "limit": limits[key],
                "command": quota_command(program, parts, {key: None}),
            }
            for key in QUOTA_KEYS
            if key in limits
        ],
    }


def _order(entity: QuotaEntity) -> tuple[tuple[int, str], ...]:
    """Named entities by name, then defaults, then entities without this part."""
    return tuple(
        (2, "") if name is None else (1, "") if name is DEFAULT else (0, str(name))
        for name in entity
    )
