"""Kafka's broker settings that have no effect here, with the reasons. Pure."""

from collections.abc import Container, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from cluster.config.effect import without_effect
from cluster.config.kafka_definitions import KAFKA_DEFINITIONS
from cluster.config.setting import Narrowed, Scope, Setting

QUORUM: Final = "the registry takes the place of KRaft's controller quorum"
_NO_SHARE_GROUPS: Final = "there are no share groups"
_SESSION: Final = "zookeeper.session.timeout.ms decides when a broker is dead"
_THREADS: Final = "one thread does a broker's work, and a few others have fixed tasks"
_JAVA: Final = "it selects a part of the Java runtime"
NO_CLASSES: Final = "Java classes cannot be loaded"
_LINKS: Final = "brokers connect to each other by links that are not listeners"
_KERBEROS: Final = "GSSAPI (Kerberos) is not implemented: use PLAIN, SCRAM or OAUTHBEARER"
_REMOTE: Final = "there is no remote tier"
_ADDRESSES: Final = "listeners and advertised.listeners contain a broker's addresses"
_QUOTAS: Final = "default quotas are set while brokers run, for example with `quotas set`"
_WAITING: Final = "completed requests leave the purgatory at once"
_NO_SAMPLES: Final = "metrics are counters, which are not sampled in windows"
_FINAL: Final = "APIs and features that are not final are not offered"
_ONE_FORMAT: Final = "record batches are stored and sent in format 2 only"
_REVOKED: Final = "revocation of the registry's certificates is not checked"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "add.partitions.to.txn.retry.backoff.ms": "the coordinator waits instead",
    "advertised.host.name": _ADDRESSES,
    "advertised.port": _ADDRESSES,
    "alter.config.policy.class.name": NO_CLASSES,
    "alter.log.dirs.replication.quota.*": "copies between log directories have their own limit",
    "auto.include.jmx.reporter": _JAVA,
    "background.threads": _THREADS,
    "broker.heartbeat.interval.ms": _SESSION,
    "broker.session.timeout.ms": _SESSION,
    "client.quota.callback.class": NO_CLASSES,
    "control.plane.listener.name": _LINKS,
    "controller.listener.names": QUORUM,
    "controller.performance.*": QUORUM,
    "controller.quorum.*": QUORUM,
    "controller.socket.timeout.ms": _LINKS,
    "create.topic.policy.class.name": NO_CLASSES,
    "*.purgatory.purge.interval.requests": _WAITING,
    "early.start.listeners": QUORUM,
    "eligible.leader.replicas.enable": "the controller elects leaders by one rule",
    "group.coordinator.append.linger.ms": "a turn of the loop appends all of its records together",
    "group.coordinator.new.enable": "there is one group coordinator",
    "group.coordinator.threads": _THREADS,
    "group.share.*": _NO_SHARE_GROUPS,
    "group.streams.*": "there are no streams groups",
    "host.name": _ADDRESSES,
    "initial.broker.registration.timeout.ms": QUORUM,
    "internal.metadata.*": QUORUM,
    "kafka.metrics.polling.interval.secs": NO_CLASSES,
    "kafka.metrics.reporters": NO_CLASSES,
    "log.dir.failure.timeout.ms": "a failed directory is reported until the controller knows it",
    "log.initial.task.delay.ms": "the tasks start according to their own intervals",
    "log.local.retention.*": _REMOTE,
    "log.message.downconversion.enable": _ONE_FORMAT,
    "log.message.format.version": _ONE_FORMAT,
    "log.message.timestamp.difference.max.ms": "log.message.timestamp.before.max.ms and"
    " log.message.timestamp.after.max.ms replace it",
    "metadata.log.*": QUORUM,
    "metadata.max.*": QUORUM,
    "metric.reporters": NO_CLASSES,
    "metrics.*": _NO_SAMPLES,
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "num.replica.alter.log.dirs.threads": _THREADS,
    "num.replica.fetchers": _THREADS,
    "offsets.commit.required.acks": "a commit waits for every in-sync replica",
    "port": _ADDRESSES,
    "process.roles": QUORUM,
    "queued.max.requests": "queued.max.request.bytes limits waiting requests",
    "quota.*.default": _QUOTAS,
    "remote.*": _REMOTE,
    "replica.socket.*": _LINKS,
    "sasl.client.callback.handler.class": _LINKS,
    "sasl.kerberos.*": _KERBEROS,
    "sasl.login.*": _LINKS,
    "sasl.mechanism.controller.protocol": QUORUM,
    "sasl.oauthbearer.assertion.*": _LINKS,
    "sasl.oauthbearer.client.credentials.*": _LINKS,
    "sasl.oauthbearer.header.urlencode": _LINKS,
    "sasl.oauthbearer.jwt.retriever.class": _LINKS,
    "sasl.oauthbearer.jwt.validator.class": NO_CLASSES,
    "sasl.oauthbearer.scope": _LINKS,
    "sasl.oauthbearer.token.endpoint.url": _LINKS,
    "security.providers": NO_CLASSES,
    "server.max.startup.time.ms": QUORUM,
    "share.coordinator.*": _NO_SHARE_GROUPS,
    "share.fetch.*": _NO_SHARE_GROUPS,
    "socket.connection.setup.timeout.*": _LINKS,
    "ssl.endpoint.identification.algorithm": _LINKS,
    "ssl.engine.factory.class": NO_CLASSES,
    "ssl.keymanager.algorithm": _JAVA,
    "ssl.provider": _JAVA,
    "ssl.secure.random.implementation": _JAVA,
    "ssl.trustmanager.algorithm": _JAVA,
    "transaction.two.phase.commit.enable": "InitProducerId of version 6 is not served (KIP-939)",
    "unclean.leader.election.interval.ms": "leaders are elected as soon as possible",
    "unstable.*": _FINAL,
    "zookeeper.max.in.flight.requests": "requests to the registry are not limited",
    "zookeeper.metadata.migration.*": QUORUM,
    "zookeeper.ssl.crl.enable": _REVOKED,
    "zookeeper.ssl.ocsp.enable": _REVOKED,
    "zookeeper.sync.time.ms": "Kafka does not use it either",
}
"""The reasons by key or pattern; each matches a definition of Kafka's."""

OF_PLUGINS: Final[Mapping[str, str]] = {
    "rlmm.config.*": _REMOTE,
    "rsm.config.*": _REMOTE,
    "remote.log.metadata.*": _REMOTE,
    "kafka.csv.metrics.*": NO_CLASSES,
    "config.providers": "values are used literally, including ${...}",
    "config.providers.*": "values are used literally, including ${...}",
}
"""Keys that Kafka does not define as broker settings, since only plug-ins read them."""

_OF_CLASSES: Final = ("*.class", "*.class.name", "*.reporters", "security.providers")
_OF_LISTENERS: Final = {
    "num.network.threads": Narrowed.LISTENER,
    "queued.max.requests": Narrowed.LISTENER,
    "ssl.*": Narrowed.LISTENER,
    "sasl.*": Narrowed.MECHANISM,
}
"""Settings without effect that listeners and mechanisms may have for themselves."""


def settings_without_effect(stated: Container[str]) -> Iterator[Setting[Any]]:
    """Kafka's broker settings except for those defined elsewhere, sorted by name."""
    for definition in KAFKA_DEFINITIONS.values():
        if definition.name in stated:
            continue
        why = _of_pattern(WITHOUT_EFFECT, definition.name)
        if why is None:
            raise AssertionError(f"no reason why {definition.name} has no effect")
        yield Setting(
            definition.name,
            definition.type,
            definition.default,
            Scope.BROKER,
            definition.update,
            f"A setting of Kafka {definition.releases}.",
            effect=without_effect(why),
            narrowed=_of_pattern(_OF_LISTENERS, definition.name) or Narrowed.NEVER,
            is_listed=definition.is_listed,
        )


def why_for_plugins(key: str) -> str | None:
    """Why the key of a plug-in has no effect; None for any other key."""
    why: str | None = _of_pattern(OF_PLUGINS, key)
    return why


def names_classes(key: str) -> bool:
    """Whether the values of a key are names of Java classes."""
    return any(fnmatchcase(key, pattern) for pattern in _OF_CLASSES)


def _of_pattern(table: Mapping[str, Any], key: str) -> Any:
    """The value of the first matching pattern; None without one."""
    return next((table[pattern] for pattern in table if fnmatchcase(key, pattern)), None)
