"""The configured limits, and which one applies to a client: Kafka's eight levels of precedence.

The matching level also decides who shares a budget, as Kafka's metric tags do: a quota of a user is
shared by all clients of that user, a quota of a client id by all users of that client id; a quota
of a pair, or of a default within one, belongs to each pair alone. Without a limit each pair is
measured by itself.

Names are compared as they are kept (`model/kept_names.py`): a quota of a long client id is found by
its hash, which is that of the whole id.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.model.kept_names import kept_name
from cluster.model.quotas import RULES, Limits, Name, QuotaEntity, QuotaKind, entities_for


@dataclass(frozen=True, slots=True)
class Resolved:
    """The rule and limit of one client under one kind of quota; a `limit` of None means none.

    The tags name who shares the budget; None means everyone.
    """

    rule: str | None
    limit: float | None
    user_tag: str | None
    client_tag: str | None

    @property
    def tags(self) -> tuple[str | None, str | None]:
        return self.user_tag, self.client_tag


class QuotaTable:
    """Limits by kind and entity. Bounded by the quotas in the registry."""

    def __init__(self) -> None:
        self._limits: dict[QuotaKind, dict[QuotaEntity, float]] = {kind: {} for kind in QuotaKind}
        """By entities with names as they are kept."""
        self._whole: dict[QuotaEntity, QuotaEntity] = {}
        """The original entity of each entity that is kept in another form."""

    def replace(self, quotas: Mapping[QuotaEntity, Limits]) -> None:
        """Replace all limits."""
        self._whole.clear()
        kept = {self._keep(entity): own for entity, own in quotas.items()}
        for kind, limits in self._limits.items():
            limits.clear()
            limits.update((entity, own[kind]) for entity, own in kept.items() if kind in own)

    def set(self, entity: QuotaEntity, kind: QuotaKind, limit: float | None) -> None:
        """Set one limit; None removes it."""
        entity = self._keep(entity)
        if limit is None:
            self._limits[kind].pop(entity, None)
        else:
            self._limits[kind][entity] = limit

    def _keep(self, entity: QuotaEntity) -> QuotaEntity:
        kept = kept_entity(entity)
        if kept is not entity:
            self._whole[kept] = entity
        return kept

    def snapshot(self) -> dict[QuotaEntity, dict[QuotaKind, float]]:
        """All limits by their original entities."""
        quotas: dict[QuotaEntity, dict[QuotaKind, float]] = {}
        for kind, limits in self._limits.items():
            for entity, limit in limits.items():
                quotas.setdefault(self._whole.get(entity, entity), {})[kind] = limit
        return quotas

    def resolve(self, kind: QuotaKind, user: str, client_id: str) -> Resolved:
        """The most specific limit of this user and client id, whose names are as they are kept."""
        limits = self._limits[kind]
        if limits:
            for rule, entity in zip(RULES, entities_for(user, client_id), strict=True):
                limit = limits.get(entity)
                if limit is not None:
                    user_tag = None if entity.user is None else user
                    client_tag = None if entity.client_id is None else client_id
                    return Resolved(rule, limit, user_tag, client_tag)
        return Resolved(None, None, user, client_id)


def kept_entity(entity: QuotaEntity) -> QuotaEntity:
    """The entity with names as they are kept; the same object if they are not long."""
    user, client_id = _kept(entity.user), _kept(entity.client_id)
    if user is entity.user and client_id is entity.client_id:
        return entity
    return QuotaEntity(user, client_id, entity.ip)


def _kept(name: Name | None) -> Name | None:
    return kept_name(name) if isinstance(name, str) else name
