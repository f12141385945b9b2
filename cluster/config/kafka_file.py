"""Reads a properties file written for Kafka, with ZooKeeper or with KRaft. Pure.

Keys of supported features are read. Keys that have no meaning here are left out with a remark that
says why. Keys that ask for an unsupported feature, such as encryption, are refused.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.config.kafka_keys import QUORUM, asks_for_security, why_without_effect
from cluster.config.remarks import lines_by_reason
from cluster.config.setting import SettingError
from cluster.config.value_type import PLAINTEXT, Listener, parse_listener

_LISTENERS: Final = "listeners"
_ADVERTISED: Final = "advertised.listeners"
_PROTOCOL_MAP: Final = "listener.security.protocol.map"
_INTER_BROKER: Final = "security.inter.broker.protocol"
_ROLES: Final = "process.roles"
_CONTROLLERS: Final = "controller.listener.names"
_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class KafkaFile(NamedTuple):
    """The keys and values that remain, and remarks for the user."""

    texts: dict[str, str]
    """Keys and values for BROKER_SETTINGS; the clients' listener is renamed to PLAINTEXT."""
    advertised_host: str | None
    """The advertised host, if the advertised port is the one that is listened on: then the host
    suits every broker, whatever its port. None without `listeners`."""
    remarks: list[str]
    """Sentences for the user on what was left out or changed, and why."""


def read_kafka_texts(texts: Mapping[str, str]) -> KafkaFile:
    """Classify the keys of a file and of --override. Raises SettingError for unsupported ones."""
    for key in sorted(texts):
        if asks_for_security(key):
            raise SettingError(
                f"{key} is not valid: there is no authentication, encryption or authorization yet,"
                " so remove it",
                key,
            )
    _check_roles(texts.get(_ROLES, "broker"))
    read_here = (_LISTENERS, _ADVERTISED, _PROTOCOL_MAP, _INTER_BROKER)
    left = {
        key: text
        for key, text in texts.items()
        if key not in read_here and why_without_effect(key) is None
    }
    remarks: list[str] = []
    protocols = _protocols(texts)
    listened, advertised = (
        _of_clients(key, texts, protocols, remarks) for key in (_LISTENERS, _ADVERTISED)
    )
    host = None
    if listened is not None:
        left[_LISTENERS] = str(listened)
    if advertised is not None:
        left[_ADVERTISED] = str(advertised)
        if listened is not None and listened.port == advertised.port:
            host = advertised.host or None
    remarks += lines_by_reason(
        "Without effect here", ((key, why_without_effect(key)) for key in sorted(texts))
    )
    return KafkaFile(left, host, remarks)


def _check_roles(text: str) -> None:
    roles = _items(text)
    if not roles or not set(roles) <= {"broker", "controller"}:
        raise SettingError(
            f"{_ROLES}={text} is not valid: it must be broker or broker,controller", _ROLES
        )
    if "broker" not in roles:
        raise SettingError(
            f"{_ROLES}={text} is a node without a broker, which has nothing to do here ({QUORUM}):"
            " use the file of a broker",
            _ROLES,
        )


def _protocols(texts: Mapping[str, str]) -> dict[str, str]:
    """The security protocol of each listener name, in upper case."""
    between = texts.get(_INTER_BROKER, PLAINTEXT).strip()
    if between != PLAINTEXT:
        raise _no_protocol(_INTER_BROKER, between, between)
    found = {protocol: protocol for protocol in _PROTOCOLS}
    text = texts.get(_PROTOCOL_MAP, "")
    for pair in _items(text):
        name, colon, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not name or not colon or protocol not in _PROTOCOLS:
            raise SettingError(
                f"{_PROTOCOL_MAP}={text} is not valid: it must be a comma-separated list of"
                f" NAME:PROTOCOL, which {pair} is not",
                _PROTOCOL_MAP,
            )
        found[name] = protocol
    return found


def _of_clients(
    key: str, texts: Mapping[str, str], protocols: Mapping[str, str], remarks: list[str]
) -> Listener | None:
    """The listener under `key` that clients use, under the name PLAINTEXT."""
    controllers = _items(texts.get(_CONTROLLERS, "CONTROLLER" if _ROLES in texts else ""))
    every = [_parsed(key, item) for item in _items(texts.get(key, ""))]
    left_out = ", ".join(str(each) for each in every if each.name in controllers)
    if left_out:
        remarks.append(f"{key}: {left_out} is left out ({QUORUM}).")
    found = [each for each in every if each.name not in controllers]
    for listener in found:
        _check_protocol(key, listener, protocols)
    if len(found) > 1:
        remarks.append(f"{key}: only {found[0]} is used, as brokers have one listener.")
    return found[0]._replace(name=PLAINTEXT) if found else None


def _parsed(key: str, item: str) -> Listener:
    try:
        return parse_listener(item)
    except ValueError:
        raise SettingError(
            f"{key} is not valid: it must be a comma-separated list of NAME://host:port,"
            f" which {item} is not",
            key,
        ) from None


def _check_protocol(key: str, listener: Listener, protocols: Mapping[str, str]) -> None:
    protocol = protocols.get(listener.name.upper())
    if protocol is None:
        raise SettingError(
            f"{key}: {listener} needs an entry for {listener.name} in {_PROTOCOL_MAP}", key
        )
    if protocol != PLAINTEXT:
        raise _no_protocol(key, str(listener), protocol)


def _no_protocol(key: str, text: str, protocol: str) -> SettingError:
    return SettingError(
        f"{key}: {text} needs the security protocol {protocol}, which is not there yet:"
        f" use {PLAINTEXT}",
        key,
    )


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
