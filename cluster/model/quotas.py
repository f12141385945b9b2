"""What a quota can be set for, and which quotas there are, in Kafka's words (KIP-13, KIP-55).

An entity names a user, a client id, both, or the default of either; its `rule` is the level of
precedence that it stands for.
"""

import enum
import math
from collections.abc import Mapping
from typing import Final, NamedTuple


class QuotaKind(enum.StrEnum):
    """What is limited; the value names it in metric records and on the command line."""

    PRODUCE = "produce"
    FETCH = "fetch"
    REQUEST = "request"


class DefaultName(enum.Enum):
    """Stands for every name that has no quota of its own."""

    DEFAULT = "<default>"


DEFAULT: Final = DefaultName.DEFAULT

Name = str | DefaultName

ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection that has not proved another (Kafka: `KafkaPrincipal.ANONYMOUS`)."""

QUOTA_KEYS: Final[dict[str, QuotaKind]] = {
    "producer_byte_rate": QuotaKind.PRODUCE,
    "consumer_byte_rate": QuotaKind.FETCH,
    "request_percentage": QuotaKind.REQUEST,
}
"""Kafka's key of each quota; bytes per second and broker, or percent of one thread."""

KEY_OF_KIND: Final = {kind: key for key, kind in QUOTA_KEYS.items()}


class QuotaEntity(NamedTuple):
    """A user, a client id, or both; None means that it plays no part."""

    user: Name | None
    client_id: Name | None

    @property
    def rule(self) -> str:
        """The level of precedence, e.g. `default-user+client`."""
        return "+".join(
            f"default-{word}" if name is DEFAULT else word
            for word, name in (("user", self.user), ("client", self.client_id))
            if name is not None
        )

    def __str__(self) -> str:
        """`user alice, client-id loader-1`, for a person."""
        return ", ".join(
            f"default {word}" if name is DEFAULT else f"{word} {name!r}"
            for word, name in (("user", self.user), ("client-id", self.client_id))
            if name is not None
        )


RULES: Final = (
    "user+client",
    "user+default-client",
    "user",
    "default-user+client",
    "default-user+default-client",
    "default-user",
    "client",
    "default-client",
)
"""Most specific first (KIP-55)."""

Limits = Mapping[QuotaKind, float]


def limits_of(config: Mapping[str, str]) -> dict[QuotaKind, float]:
    """The limits in a stored config; keys that are no quotas, and broken values, are left out."""
    limits = {}
    for key, text in config.items():
        kind = QUOTA_KEYS.get(key)
        if kind is None:
            continue
        try:
            limit = float(text)
        except ValueError:
            continue
        if math.isfinite(limit) and limit > 0:
            limits[kind] = limit
    return limits
