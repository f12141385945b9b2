"""Checks requests about quotas (KIP-546): entities, keys, values, filters. Pure.

Error codes and their causes are Kafka's. An `ip` entity is an address; as in Kafka it may be a host
name, which is resolved.
"""

import ipaddress
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from cluster.model.addresses import is_address
from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import DEFAULT, Limits, Name, QuotaEntity

L = TypeVar("L", bound=Limits)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_ANY: Final = 2

_LIMITS: Final = {"Int": 2.0**31, "Long": 2.0**63}
_WHOLE_KEYS: Final = {
    "producer_byte_rate": "Long",
    "consumer_byte_rate": "Long",
    "connection_creation_rate": "Int",
}


class FilterComponent(NamedTuple):
    """The condition on one type of entity; `match` belongs to MATCH_EXACT."""

    entity_type: str
    match_type: int
    match: str | None


def entity_of(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of (type, name) pairs; a null name is the default. Raises Refused.

    An ip may be a host name that the broker has resolved, see `by_address`.
    """
    if not parts:
        raise Refused(ErrorCode.invalid_request, "Invalid empty client quota entity")
    names: dict[str, Name] = {}
    for entity_type, name in parts:
        if entity_type in names:
            raise Refused(
                ErrorCode.invalid_request, f"Invalid client quota entity: two of {entity_type}"
            )
        if entity_type not in (USER, CLIENT_ID, IP):
            raise Refused(
                ErrorCode.invalid_request, f"Unhandled client quota entity type: {entity_type}"
            )
        if name == "":
            raise Refused(ErrorCode.invalid_request, f"Invalid empty {entity_type}")
        names[entity_type] = DEFAULT if name is None else name
    ip = names.get(IP)
    if ip is not None and len(names) > 1:
        raise Refused(
            ErrorCode.invalid_request,
            "Invalid quota entity combination, IP entity should not be used with user or client ID"
            " entity.",
        )
    if ip is not None and ip is not DEFAULT and is_address(str(ip)):
        ip = str(ipaddress.ip_address(str(ip)))
    return QuotaEntity(names.get(USER), names.get(CLIENT_ID), ip)


def host_names(entities: Iterable[QuotaEntity]) -> set[str]:
    """The host names among the entities' addresses."""
    hosts = {str(each.ip) for each in entities if each.ip not in (None, DEFAULT)}
    return {host for host in hosts if not is_address(host)}


def by_address(
    quotas: Mapping[QuotaEntity, L], addresses: Mapping[str, str | None]
) -> dict[QuotaEntity, L]:
    """The quotas with addresses in place of host names; a quota of the address itself wins.

    `addresses` maps host names to addresses, or None if a name has none.
    """
    of_names: dict[QuotaEntity, L] = {}
    others: dict[QuotaEntity, L] = {}
    for entity, limits in quotas.items():
        if entity.ip not in addresses:
            others[entity] = limits
        elif (address := addresses[str(entity.ip)]) is not None:
            of_names[entity._replace(ip=address)] = limits
    return of_names | others


def parts_of(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    """The (type, name) pairs of an entity, the user first; a null name is the default."""
    return [
        (entity_type, None if name is DEFAULT else str(name))
        for entity_type, name in (
            (USER, entity.user),
            (CLIENT_ID, entity.client_id),
            (IP, entity.ip),
        )
        if name is not None
    ]


def text_of(entity: QuotaEntity, key: str, value: float) -> str:
    """The stored text of a quota. Raises Refused for an unknown key or a bad value."""
    if key not in entity.keys:
        known = ", ".join(entity.keys)
        raise Refused(
            ErrorCode.invalid_request, f"Invalid configuration key {key}; there are: {known}"
        )
    if not math.isfinite(value) or value <= 0:
        raise Refused(ErrorCode.invalid_request, f"Quota {key} must be greater than 0")
    if key not in _WHOLE_KEYS:
        return repr(float(value))
    of_type = _WHOLE_KEYS[key]
    if value != math.floor(value) or value >= _LIMITS[of_type]:
        raise Refused(ErrorCode.invalid_request, f"Configuration {key} must be a {of_type} value")
    return str(int(value))


def changes_of(
    entity: QuotaEntity, operations: Iterable[tuple[str, float, bool]]
) -> dict[str, str | None]:
    """The changes to store, from (key, value, is removed); None removes a key. Raises Refused."""
    changes: dict[str, str | None] = {}
    for key, value, is_removed in operations:
        if key in changes:
            raise Refused(ErrorCode.invalid_request, f"Quota {key} is altered twice")
        changes[key] = (
            None if is_removed and text_of(entity, key, 1.0) else text_of(entity, key, value)
        )
    return changes


def selected(
    quotas: Mapping[QuotaEntity, Limits], components: Sequence[FilterComponent], *, strict: bool
) -> list[tuple[QuotaEntity, Limits]]:
    """Entities that match every component and, if strict, have no other type. Raises Refused."""
    wanted: dict[str, FilterComponent] = {}
    for component in components:
        if component.entity_type not in (USER, CLIENT_ID, IP):
            raise Refused(
                ErrorCode.unsupported_version,
                f"Custom entity type '{component.entity_type}' not supported",
            )
        if component.entity_type in wanted:
            raise Refused(
                ErrorCode.invalid_request,
                f"Duplicate {component.entity_type} filter component entity type",
            )
        if component.match_type not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_ANY):
            raise Refused(
                ErrorCode.invalid_request, f"Unexpected match type {component.match_type}"
            )
        if (component.match_type == MATCH_EXACT) != (component.match is not None):
            raise Refused(ErrorCode.invalid_request, "Exactly an exact match takes a name to match")
        wanted[component.entity_type] = component
    if IP in wanted and len(wanted) > 1:
        raise Refused(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination, IP filter component should not be"
            " used with user or clientId filter component.",
        )
    return [
        (entity, limits)
        for entity, limits in quotas.items()
        if limits and _matches(dict(parts_of(entity)), wanted, strict=strict)
    ]


def _matches(
    parts: Mapping[str, str | None], wanted: Mapping[str, FilterComponent], *, strict: bool
) -> bool:
    if strict and parts.keys() - wanted.keys():
        return False
    for entity_type, component in wanted.items():
        if entity_type not in parts:
            return False
        name = parts[entity_type]
        if component.match_type == MATCH_EXACT and name != component.match:
            return False
        if component.match_type == MATCH_DEFAULT and name is not None:
            return False
    return True
