"""A broker's loggers as config resources (KIP-412): describing them and changing their levels.

Levels last until the broker stops, as in Kafka.
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
"""The resource type; the resource name is the broker id."""


def describe_loggers() -> list[Entry]:
    """Every logger with its effective level."""
    return [
        Entry(
            name=name,
            value=level,
            source=Source.DYNAMIC_BROKER_LOGGER,
            is_default=False,
            read_only=False,
            sensitive=False,
            type=TypeCode.STRING,
            documentation="The lowest level of the lines that are logged.",
            synonyms=(),
        )
        for name, level in levels_in_force().items()
    ]


def check_levels(levels: Mapping[str, str | None]) -> None:
    """Raise Refused for an unknown logger or an unsupported level. None removes a logger's own
    level.
    """
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
    """Apply checked levels."""
    for name, level in levels.items():
        set_level(name, level)
        log.warning("set the log level of %s: %s", name, level or "inherited from its parent")
