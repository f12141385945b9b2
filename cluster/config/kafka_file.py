"""Reads a properties file written for Kafka, with ZooKeeper or with KRaft. Pure.

Keys of supported features are read. Keys that have no meaning here are left out with a remark that
says why. Keys that ask for an unsupported feature, such as Kerberos, are refused.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.config import broker
from cluster.config.kafka_keys import QUORUM, why_refused, why_without_effect
from cluster.config.remarks import lines_by_reason
from cluster.config.setting import Setting, SettingError
from cluster.config.value_type import Listener

_ROLES: Final = "process.roles"
_CONTROLLERS: Final = "controller.listener.names"


class KafkaFile(NamedTuple):
    """The keys and values that remain, and remarks for the user."""

    texts: dict[str, str]
    """Keys and values for BROKER_SETTINGS; of the listeners, those that clients use."""
    remarks: list[str]
    """Sentences for the user on what was left out or changed, and why."""


def read_kafka_texts(texts: Mapping[str, str]) -> KafkaFile:
    """Classify the keys of a file and of --override. Raises SettingError for unsupported ones."""
    for key in sorted(texts):
        why = why_refused(key)
        if why is not None:
            raise SettingError(f"{key} is not valid: {why}", key)
    _check_roles(texts.get(_ROLES, "broker"))
    left = {key: text for key, text in texts.items() if why_without_effect(key) is None}
    remarks: list[str] = []
    for setting in (broker.LISTENERS, broker.ADVERTISED_LISTENERS):
        if setting.name in left:
            left[setting.name] = _of_clients(setting, texts, remarks)
    remarks += lines_by_reason(
        "Without effect here", ((key, why_without_effect(key)) for key in sorted(texts))
    )
    return KafkaFile(left, remarks)


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
