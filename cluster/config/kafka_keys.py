"""Keys of Kafka's brokers that are not settings here: accepted without effect, or refused."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from cluster.config.broker import BROKER_SETTINGS
from cluster.config.setting import LISTENER_PREFIX

QUORUM: Final = "the registry takes the place of KRaft's controller quorum"
_NO_SHARE_GROUPS: Final = "there are no share groups"
_SESSION: Final = "zookeeper.session.timeout.ms decides when a broker is dead"
_THREADS: Final = "one thread serves a broker, beside a few with fixed tasks"
_JAVA: Final = "it chooses among parts of a Java runtime"
_LINKS: Final = "brokers reach each other by links that are no listeners"
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
    "control.plane.listener.name": _LINKS,
    "ssl.endpoint.identification.algorithm": _LINKS,
    "sasl.client.callback.handler.class": _LINKS,
    "sasl.login.*": _LINKS,
    "sasl.oauthbearer.header.urlencode": _LINKS,
    "sasl.oauthbearer.token.endpoint.url": _LINKS,
    "ssl.keymanager.algorithm": _JAVA,
    "ssl.provider": _JAVA,
    "ssl.secure.random.implementation": _JAVA,
    "ssl.trustmanager.algorithm": _JAVA,
    "sasl.mechanism.controller.protocol": QUORUM,
    "process.roles": QUORUM,
    "controller.listener.names": QUORUM,
    "controller.quorum.*": QUORUM,
    "metadata.log.*": QUORUM,
    "broker.heartbeat.interval.ms": _SESSION,
    "broker.session.timeout.ms": _SESSION,
}
"""Keys, or patterns of keys, that a file may contain; and why they have no effect."""

REFUSED: Final[Mapping[str, str]] = {
    "sasl.kerberos.*": "there is no GSSAPI (Kerberos): use PLAIN, SCRAM or OAUTHBEARER",
    "ssl.engine.factory.class": "it is a Java class, which cannot be run here",
}
"""Keys that a file may not contain, and why: what they ask for would not be there."""


def why_without_effect(key: str) -> str | None:
    """Why a key has no effect; None for a setting, and for an unknown key."""
    return None if key in BROKER_SETTINGS else _reason(WITHOUT_EFFECT, key)


def why_refused(key: str) -> str | None:
    """Why a key of Kafka's is refused; None for every other key."""
    return None if key in BROKER_SETTINGS else _reason(REFUSED, key)


def _reason(reasons: Mapping[str, str], key: str) -> str | None:
    """The reason of the first pattern that matches, for all listeners or for one."""
    for pattern, why in reasons.items():
        if fnmatchcase(key, pattern) or fnmatchcase(key, f"{LISTENER_PREFIX}*.{pattern}"):
            return why
    return None
