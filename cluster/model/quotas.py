"""The kinds of quotas, the entities that have them, and which entity applies to a client.

An entity names a user, a client id, both, or the default of either (KIP-13, KIP-55); its `rule` is
its level of precedence. Or it names an IP address, or the default for addresses (KIP-612).
"""

import enum
import math
from collections.abc import Mapping
from typing import Final, NamedTuple


class QuotaKind(enum.StrEnum):
    """The kinds of limits; the value is their name in metric records and on the command line."""

    PRODUCE = "produce"
    FETCH = "fetch"
    REQUEST = "request"
    MUTATION = "mutation"
    CONNECTION = "connection"


CLIENT_KINDS: Final = tuple(kind for kind in QuotaKind if kind is not QuotaKind.CONNECTION)
"""The quotas of users and client ids; metric records are written for these."""


class DefaultName(enum.Enum):
    """Stands for every name without a quota of its own."""

    DEFAULT = "<default>"


DEFAULT: Final = DefaultName.DEFAULT

Name = str | DefaultName

QUOTA_KEYS: Final[dict[str, QuotaKind]] = {
    "producer_byte_rate": QuotaKind.PRODUCE,
    "consumer_byte_rate": QuotaKind.FETCH,
    "request_percentage": QuotaKind.REQUEST,
    "controller_mutation_rate": QuotaKind.MUTATION,
    "connection_creation_rate": QuotaKind.CONNECTION,
}
"""Kafka's key of each quota.

Their units are bytes per second, percent of one thread, created and deleted partitions per second,
and accepted connections per second. All limits are per broker; only the controller creates and
deletes partitions."""

KEY_OF_KIND: Final = {kind: key for key, kind in QUOTA_KEYS.items()}


class QuotaEntity(NamedTuple):
    """A user, a client id, or both; or an address. None for a part that does not matter."""

    user: Name | None
    client_id: Name | None
    ip: Name | None = None

    @property
    def rule(self) -> str:
        """The level of precedence, e.g. `default-user+client`."""
        return "+".join(
            f"default-{word}" if name is DEFAULT else word
            for word, name in (("user", self.user), ("client", self.client_id), ("ip", self.ip))
            if name is not None
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the quotas that it can have."""
        return tuple(
            key
            for key, kind in QUOTA_KEYS.items()
            if (kind is QuotaKind.CONNECTION) == (self.ip is not None)
        )

    def __str__(self) -> str:
        """`user alice, client-id loader-1`, for a person."""
        return ", ".join(
            f"default {word}" if name is DEFAULT else f"{word} {name!r}"
            for word, name in (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
            if name is not None
        )


class QuotaClient(NamedTuple):
    """The owner of a budget: a connection's principal, and the client id in its requests."""

    user: str
    client_id: str

    def __str__(self) -> str:
        """`user alice, client-id 'loader-1'`, for a person."""
        return str(QuotaEntity(*self))


def entities_for(user: str, client_id: str) -> tuple[QuotaEntity, ...]:
    """Every entity whose quota can apply to this client, the most specific first (KIP-55)."""
    return (
        QuotaEntity(user, client_id),
        QuotaEntity(user, DEFAULT),
        QuotaEntity(user, None),
        QuotaEntity(DEFAULT, client_id),
        QuotaEntity(DEFAULT, DEFAULT),
        QuotaEntity(DEFAULT, None),
        QuotaEntity(None, client_id),
        QuotaEntity(None, DEFAULT),
    )


RULES: Final = tuple(entity.rule for entity in entities_for("", ""))
"""The levels of precedence of a client's quotas, in the order of `entities_for`."""

ALL_RULES: Final = (*RULES, "ip", "default-ip")

Limits = Mapping[QuotaKind, float]


def limits_of(entity: QuotaEntity, config: Mapping[str, str]) -> dict[QuotaKind, float]:
    """The limits in an entity's stored config, without other keys and invalid values."""
    limits = {}
    for key in entity.keys:
        text = config.get(key)
        if text is None:
            continue
        kind = QUOTA_KEYS[key]
        try:
            limit = float(text)
        except ValueError:
            continue
        if math.isfinite(limit) and limit > 0:
            limits[kind] = limit
    return limits
