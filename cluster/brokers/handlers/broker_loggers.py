"""Loggers of a broker as resources of configs (KIP-412): described, and their levels changed.

Levels last until the broker ends, as in Kafka.
"""

import logging
from collections.abc import Mapping
from typing import Final

from cluster.config.describe import Entry
from cluster.config.snapshot import Source
from cluster.config.value_type import TypeCode
from cluster.model.errors import ErrorCode, Refused
from cluster.runtime.logger_levels import LEVELS, ROOT, exists, levels_in_force, set_level

log = logging.getLogger(__name__)

BROKER_LOGGER: Final = 8
"""The resource type; its name is the broker's number."""


def describe_loggers() -> list[Entry]:
    """Every logger with the level in force."""
    return [
        Entry(
            name=name,
            value=level,
            source=Source.DYNAMIC_BROKER_LOGGER,
            is_default=False,
            read_only=False,
            sensitive=False,
            type=TypeCode.STRING,
            documentation="Level from which on lines are logged.",
            synonyms=(),
        )
        for name, level in levels_in_force().items()
    ]


def check_levels(levels: Mapping[str, str | None]) -> None:
    """Raise Refused unless the loggers exist and may have these levels, None for none of theirs."""
    for name, level in levels.items():
        if level is not None and level not in LEVELS:
            raise Refused(
                ErrorCode.invalid_config,
                f"Cannot set the log level of {name} to {level} as it is not a supported log level."
                f" Valid log levels are {', '.join(LEVELS)}",
            )
        if not exists(name):
            raise Refused(ErrorCode.invalid_config, f"Logger {name} does not exist!")
        if level is None and name == ROOT:
            raise Refused(
                ErrorCode.invalid_request,
                f"Removing the log level of the {ROOT} logger is not allowed",
            )


def take_levels(levels: Mapping[str, str | None]) -> None:
    """Put checked levels in force."""
    for name, level in levels.items():
        set_level(name, level)
        log.warning("level of logger %s: %s", name, level or "that of the one above it")
