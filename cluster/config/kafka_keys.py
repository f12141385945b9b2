"""Keys of Kafka's brokers that are not settings here: accepted without effect, or refused."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from cluster.config.broker import BROKER_SETTINGS

QUORUM: Final = "the registry takes the place of KRaft's controller quorum"
_NO_SHARE_GROUPS: Final = "there are no share groups"
_SESSION: Final = "zookeeper.session.timeout.ms decides when a broker is dead"
_THREADS: Final = "one thread serves a broker, beside a few with fixed tasks"
_TRANSACTIONS: Final = "there are no transactions yet"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "background.threads": _THREADS,
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "num.replica.fetchers": _THREADS,
    "queued.max.requests": "queued.max.request.bytes bounds what waits",
    "group.coordinator.new.enable": "there is one group coordinator",
    "group.coordinator.append.linger.ms": "what a turn of the loop brings is appended together",
    "group.coordinator.threads": _THREADS,
    "group.share.*": _NO_SHARE_GROUPS,
    "group.streams.*": "there are no streams groups",
    "offsets.commit.required.acks": "a commit waits for every in-sync replica",
    "share.coordinator.*": _NO_SHARE_GROUPS,
    "transaction.*": _TRANSACTIONS,
    "transactional.*": _TRANSACTIONS,
    "inter.broker.listener.name": "brokers reach each other by links that are no listeners",
    "process.roles": QUORUM,
    "controller.listener.names": QUORUM,
    "controller.quorum.*": QUORUM,
    "metadata.log.*": QUORUM,
    "broker.heartbeat.interval.ms": _SESSION,
    "broker.session.timeout.ms": _SESSION,
}
"""Keys, or patterns of keys, that a file may contain; and why they have no effect."""

_SECURITY: Final = (
    "ssl.*",
    "sasl.*",
    "*.sasl.*",
    "listener.name.*",
    "authorizer.*",
    "super.users",
    "allow.everyone.if.no.acl.found",
    "principal.builder.class",
)
"""Refused, because accepting them would suggest security that does not exist."""


def why_without_effect(key: str) -> str | None:
    """Why a key has no effect; None for a setting, and for an unknown key."""
    if key in BROKER_SETTINGS:
        return None
    return next((why for pattern, why in WITHOUT_EFFECT.items() if fnmatchcase(key, pattern)), None)


def asks_for_security(key: str) -> bool:
    """Whether a key, not a setting here, configures security (authentication, encryption, ACLs)."""
    return key not in BROKER_SETTINGS and any(fnmatchcase(key, pattern) for pattern in _SECURITY)
