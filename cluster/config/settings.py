"""Makes checked snapshots of the settings of a broker, a topic or a group from texts.

A mistake in a file or on the command line raises UserError, one in a client's request Refused.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cluster.config import relations
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.group import GROUP_SETTINGS
from cluster.config.setting import SettingError
from cluster.config.snapshot import Layer, Settings, Source
from cluster.config.topic import TOPIC_SETTINGS
from cluster.model.errors import ErrorCode, Refused, UserError

__all__ = [
    "Settings",
    "broker_settings",
    "group_settings",
    "parse_override",
    "placed",
    "topic_settings",
]


_NOWHERE: Final[Mapping[str, str]] = MappingProxyType({})


def parse_override(text: str) -> tuple[str, str]:
    """Key and value of one `--override key=value`. Raises UserError."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UserError(f"--override {text} is not valid: write it as key=value")
    return key.strip(), value.strip()


def broker_settings(overrides: Mapping[str, str], places: Mapping[str, str] = _NOWHERE) -> Settings:
    """The settings a broker starts with, from its file and command line.

    `places`: where a key was written (`server.properties, line 3`), for the message. Raises
    UserError.
    """
    try:
        settings = Settings(BROKER_SETTINGS, [Layer(Source.STATIC_BROKER, overrides)])
        relations.check_broker(settings)
    except SettingError as problem:
        raise placed(problem, places) from None
    return settings


def placed(problem: SettingError, places: Mapping[str, str]) -> UserError:
    """The error for the user, with the place where the key was written."""
    place = places.get(problem.name or "")
    return UserError(f"{place}: {problem}" if place else str(problem))


def topic_settings(broker: Settings, overrides: Mapping[str, str]) -> Settings:
    """A topic's settings over those of a broker. Raises Refused(invalid_config)."""
    try:
        settings = Settings(TOPIC_SETTINGS, [Layer(Source.DYNAMIC_TOPIC, overrides)], below=broker)
        relations.check_topic(settings)
    except SettingError as problem:
        raise Refused(ErrorCode.invalid_config, str(problem)) from None
    return settings


def group_settings(broker: Settings, overrides: Mapping[str, str]) -> Settings:
    """A group's settings over those of a broker. Raises Refused(invalid_config)."""
    try:
        return Settings(GROUP_SETTINGS, [Layer(Source.DYNAMIC_GROUP, overrides)], below=broker)
    except SettingError as problem:
        raise Refused(ErrorCode.invalid_config, str(problem)) from None
