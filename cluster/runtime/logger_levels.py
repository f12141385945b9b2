"""The levels of this process's loggers, with Kafka's level names (`LogLevelConfig`)."""

import logging
from collections.abc import Iterator
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
"""From Kafka's names to Python's levels, the gravest first. Nothing is logged at TRACE here."""


def levels_in_force() -> dict[str, str]:
    """The effective level of each logger by name: its own or that of its nearest parent."""
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in _names()}


def exists(name: str) -> bool:
    """Whether a logger of that name, or a child of it, exists."""
    return name == ROOT or name in logging.root.manager.loggerDict


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level, one of `LEVELS`; None removes it, so that the parent's level applies.

    The root logger must have one.
    """
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _names() -> Iterator[str]:
    yield ROOT
    yield from sorted(logging.root.manager.loggerDict)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name_of(level: int) -> str:
    """The most severe of Kafka's level names whose lines are all logged."""
    return next((name for name, least in LEVELS.items() if level >= least), "TRACE")
