"""Rules between the settings of listeners, with Kafka's reasons (`KafkaConfig`, 3.9). Pure.

Mistakes that Kafka reports only when the listener starts or a client connects are refused
immediately.
"""

import ipaddress
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

from cluster.config import broker
from cluster.config.jaas import jaas_key, login_module
from cluster.config.listeners import ListenerConfig, client_listeners, of_listener
from cluster.config.setting import LISTENER_PREFIX, Setting, SettingError
from cluster.config.snapshot import Settings
from cluster.config.value_type import Listener
from cluster.model.security import SaslMechanism

ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})
"""Hosts to listen on that no client can connect to."""
_KERBEROS: Final = "GSSAPI"


def listener_problems(settings: Settings) -> Iterator[SettingError]:
    """Every broken rule."""
    unknown = list(_without_protocol(settings))
    yield from unknown
    yield from _same_twice(broker.LISTENERS, settings[broker.LISTENERS])
    yield from _advertised_problems(settings)
    yield from _inter_broker_problems(settings)
    yield from _jaas_problems(settings)
    if not unknown:
        for listener in client_listeners(settings):
            if listener.protocol.has_sasl:
                yield from _sasl_problems(settings, listener)
            if listener.protocol.is_encrypted:
                yield from _key_store_problems(settings, listener)
    yield from _limit_problems(settings)


def _problem(setting: Setting[Any], reason: str) -> SettingError:
    return SettingError(reason, setting.name)


def _without_protocol(settings: Settings) -> Iterator[SettingError]:
    listeners = settings[broker.LISTENERS]
    if not listeners:
        yield _problem(broker.LISTENERS, "listeners is empty: a broker needs at least one")
    for listener in listeners:
        if listener.name not in settings[broker.LISTENER_SECURITY_PROTOCOL_MAP]:
            yield _problem(
                broker.LISTENERS,
                f"listeners: {listener} needs an entry for {listener.name} in"
                " listener.security.protocol.map",
            )


def _same_twice(setting: Setting[Any], listeners: tuple[Listener, ...]) -> Iterator[SettingError]:
    """Two listeners may share a port if one has an IPv4 and the other an IPv6 address."""
    for one, other in combinations(listeners, 2):
        if one.name == other.name:
            yield _problem(
                setting, f"{setting.name} names {one.name} twice: each listener needs its own name"
            )
        has_both = {_ip_version(one.host), _ip_version(other.host)} == {4, 6}
        if one.port == other.port != 0 and not has_both and setting is broker.LISTENERS:
            yield _problem(
                setting,
                f"{setting.name} names the port {one.port} twice: each listener needs its own,"
                " unless one has an IPv4 and the other an IPv6 address",
            )


def _ip_version(host: str) -> int | None:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def _advertised_problems(settings: Settings) -> Iterator[SettingError]:
    listeners = settings[broker.LISTENERS]
    advertised = settings[broker.ADVERTISED_LISTENERS]
    yield from _same_twice(broker.ADVERTISED_LISTENERS, advertised)
    for listener in advertised:
        if listener.host in ANY_ADDRESS or listener.port == 0:
            yield _problem(
                broker.ADVERTISED_LISTENERS,
                f"advertised.listeners={listener} is not an address a client can connect to:"
                " give a host and a port",
            )
        if listener.name not in _names(listeners):
            yield _problem(
                broker.ADVERTISED_LISTENERS,
                f"advertised.listeners: {listener} is not one of the listeners, which are"
                f" {', '.join(_names(listeners))}",
            )
    if not advertised and any(listener.host in ANY_ADDRESS for listener in listeners):
        yield _problem(
            broker.LISTENERS,
            "listeners binds every address, which a client cannot connect to:"
            " give advertised.listeners a host and a port",
        )


def _inter_broker_problems(settings: Settings) -> Iterator[SettingError]:
    """Values that are given must be consistent, since Kafka refuses a file in which they are not.
    Nothing is required: brokers reach each other by other links.
    """
    by_name = broker.INTER_BROKER_LISTENER_NAME
    by_protocol = broker.SECURITY_INTER_BROKER_PROTOCOL
    name = (settings[by_name] or "").upper()
    if name and settings.given(by_protocol):
        yield _problem(
            by_name, f"only one of {by_name.name} and {by_protocol.name} may be set: remove one"
        )
    setting: Setting[Any] = by_name
    if not name and settings.given(by_protocol):
        setting, name = by_protocol, settings[by_protocol]
    if not name:
        return
    protocols = settings[broker.LISTENER_SECURITY_PROTOCOL_MAP]
    advertised = _names(settings[broker.ADVERTISED_LISTENERS] or settings[broker.LISTENERS])
    if name not in protocols:
        yield _problem(
            setting,
            f"{setting.name}={name} needs an entry for {name} in listener.security.protocol.map",
        )
    elif name not in advertised:
        yield _problem(
            setting,
            f"{setting.name}={name} is not one of the advertised listeners, which are"
            f" {', '.join(advertised)}",
        )
    elif protocols[name].has_sasl:
        yield from _inter_broker_mechanism_problem(settings, name)


def _inter_broker_mechanism_problem(settings: Settings, listener: str) -> Iterator[SettingError]:
    setting = broker.SASL_MECHANISM_INTER_BROKER_PROTOCOL
    enabled = of_listener(settings, listener)[broker.SASL_ENABLED_MECHANISMS]
    if settings.given(setting) and settings[setting] not in enabled:
        yield _problem(
            setting,
            f"{setting.name}={settings[setting]} must be among sasl.enabled.mechanisms of the"
            f" listener {listener}, which are {', '.join(enabled)}",
        )


def _sasl_problems(settings: Settings, listener: ListenerConfig) -> Iterator[SettingError]:
    setting = broker.SASL_ENABLED_MECHANISMS
    enabled = of_listener(settings, listener.name)[setting]
    if _KERBEROS in enabled:
        yield _problem(
            setting if settings.given(setting) else broker.LISTENERS,
            f"the listener {listener.name} would use {setting.name}={','.join(enabled)}, and there"
            f" is no {_KERBEROS} (Kerberos): name some of {', '.join(SaslMechanism)}",
        )
    for mechanism in SaslMechanism:
        if mechanism not in enabled:
            continue
        try:
            module = login_module(settings, listener.name, mechanism)
        except SettingError as problem:
            yield problem
            continue
        if module is None and mechanism is SaslMechanism.PLAIN:
            yield _problem(
                broker.LISTENERS,
                f"the listener {listener.name} has {mechanism}, whose users and passwords must"
                f" stand in {jaas_key(listener.name, mechanism)}",
            )


def _jaas_problems(settings: Settings) -> Iterator[SettingError]:
    """A text for no mechanism of a listener causes a warning, as Kafka ignores it."""
    setting = broker.SASL_JAAS_CONFIG
    for key in {key for layer in settings.layers for key, text in layer.texts.items() if text}:
        narrowed = settings.table.narrowed_key(key)
        name, mechanism = (narrowed.name, narrowed.mechanism) if narrowed else (key, None)
        if name == setting.name and mechanism is None:
            yield SettingError(
                f"{key} must be for one mechanism of one listener: call it"
                f" {LISTENER_PREFIX}LISTENER.MECHANISM.{setting.name}, with names in lower case",
                key,
            )


def _key_store_problems(settings: Settings, listener: ListenerConfig) -> Iterator[SettingError]:
    own = of_listener(settings, listener.name)
    if own[broker.SSL_KEYSTORE_LOCATION] is None and own[broker.SSL_KEYSTORE_KEY] is None:
        yield _problem(
            broker.LISTENERS,
            f"the listener {listener.name} needs a private key and certificates: set"
            " ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain",
        )


def _limit_problems(settings: Settings) -> Iterator[SettingError]:
    if (
        settings[broker.MAX_CONNECTIONS_PER_IP] == 0
        and not settings[broker.MAX_CONNECTIONS_PER_IP_OVERRIDES]
    ):
        yield _problem(
            broker.MAX_CONNECTIONS_PER_IP,
            "max.connections.per.ip can be 0 only if max.connections.per.ip.overrides is set",
        )
    delay_ms = settings[broker.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS]
    idle_ms = settings[broker.CONNECTIONS_MAX_IDLE_MS]
    if (
        settings.given(broker.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS)
        and 0 <= idle_ms <= delay_ms
    ):
        yield _problem(
            broker.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
            f"connection.failed.authentication.delay.ms={delay_ms} must be less than"
            f" connections.max.idle.ms={idle_ms}: the answer would come too late",
        )


def _names(listeners: tuple[Listener, ...]) -> list[str]:
    return [listener.name for listener in listeners]
