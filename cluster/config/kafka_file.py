"""Reads a properties file written for Kafka, with ZooKeeper or with KRaft. Pure.

Every key of Kafka's is accepted, with a remark if it has no effect here. Unknown keys are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from cluster.config import broker
from cluster.config.broker import BROKER_SETTINGS, SETTINGS_OF_KAFKA
from cluster.config.kafka_keys import NO_CLASSES, QUORUM, names_classes, why_for_plugins
from cluster.config.remarks import lines_by_reason
from cluster.config.setting import Setting, SettingError
from cluster.config.value_type import Listener
from cluster.model.printable import one_line

_ROLES: Final = "process.roles"
_CONTROLLERS: Final = "controller.listener.names"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_OF_KAFKA: Final = frozenset(setting.name for setting in SETTINGS_OF_KAFKA)


class KafkaFile(NamedTuple):
    """The keys and values that remain, and remarks for the user."""

    texts: dict[str, str]
    """Keys and values for BROKER_SETTINGS; the listeners without those of KRaft controllers."""
    remarks: list[str]
    """Sentences for the user about what was left out or changed, and why."""
    unknown: tuple[str, ...]
    """Keys of the file that were left out because neither Kafka nor this broker knows them."""


def read_kafka_texts(file: Mapping[str, str], overrides: Mapping[str, str] = _NONE) -> KafkaFile:
    """Classify the keys of a file and those of --override, which take precedence.

    An unknown key of the file is left out, as in Kafka; one in `overrides` is kept, to be refused.
    Raises SettingError.
    """
    texts = {**file, **overrides}
    _check_roles(texts.get(_ROLES, "broker"))
    plugins = {key: why for key in sorted(texts) if (why := _why_left_out(key)) is not None}
    unknown = tuple(
        key
        for key in file
        if key not in BROKER_SETTINGS and key not in plugins and key not in overrides
    )
    left = {key: text for key, text in texts.items() if key not in plugins and key not in unknown}
    remarks: list[str] = []
    for setting in (broker.LISTENERS, broker.ADVERTISED_LISTENERS):
        if setting.name in left:
            left[setting.name] = _of_clients(setting, texts, remarks)
    remarks += lines_by_reason(
        "Without effect here", [*_without_effect(left), *((key, plugins[key]) for key in plugins)]
    )
    return KafkaFile(left, remarks, unknown)


def unknown_keys(unknown: Iterable[str], file: str, lines: Mapping[str, int]) -> str:
    """The warning about a file's unknown keys; their values may be secret."""
    named = []
    for key in unknown:
        close = BROKER_SETTINGS.closest(key)
        hint = f"; did you mean {close}?" if close else ""
        named.append(f"{one_line(key)} (line {lines[key]}{hint})")
    return f"Warning: {file}: unknown broker settings are left out: {', '.join(named)}."


def _why_left_out(key: str) -> str | None:
    return None if key in BROKER_SETTINGS else why_for_plugins(key)


def _without_effect(texts: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Keys of settings that only Kafka has and that differ from its default, with the reason.

    A value that names Java classes is shown with its key.
    """
    for key in sorted(texts):
        if key not in BROKER_SETTINGS:
            continue
        setting = BROKER_SETTINGS.find(key)
        if setting.name not in _OF_KAFKA or setting.parse(key, texts[key]) == setting.default:
            continue
        if names_classes(setting.name):
            yield f"{key}={one_line(texts[key])}", NO_CLASSES
        else:
            yield key, setting.effect.lacking


def _check_roles(text: str) -> None:
    roles = _items(text) or ["broker"]  # with ZooKeeper
    if not set(roles) <= {"broker", "controller"}:
        raise SettingError(
            f"{_ROLES}={text} is not valid: it must be broker or broker,controller", _ROLES
        )
    if "broker" not in roles:
        raise SettingError(
            f"{_ROLES}={text} is a node without a broker, which has nothing to do here ({QUORUM}):"
            " use the file of a broker",
            _ROLES,
        )


def _of_clients(
    setting: Setting[tuple[Listener, ...]], texts: Mapping[str, str], remarks: list[str]
) -> str:
    """The listeners without those of KRaft's controllers."""
    controllers = _items(texts.get(_CONTROLLERS, "CONTROLLER" if _ROLES in texts else "").upper())
    every = setting.parse(setting.name, texts[setting.name])
    left_out = ", ".join(str(each) for each in every if each.name in controllers)
    if left_out:
        remarks.append(f"{setting.name}: {left_out} is left out ({QUORUM}).")
    return ",".join(str(each) for each in every if each.name not in controllers)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
