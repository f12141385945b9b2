"""Levels of this process's loggers, under Kafka's names of levels (`LogLevelConfig`)."""

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
    """The level of each logger by its name, its own or that of the nearest above it."""
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in _names()}


def exists(name: str) -> bool:
    """Whether there is a logger of that name, or one below it."""
    return name == ROOT or name in logging.root.manager.loggerDict


def set_level(name: str, level: str | None) -> None:
    """Give a logger a level of `LEVELS`; None takes its own away, so that the one above it counts.

    The root logger must have one.
    """
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _names() -> Iterator[str]:
    yield ROOT
    yield from sorted(logging.root.manager.loggerDict)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name_of(level: int) -> str:
    """The gravest of Kafka's names whose lines are all logged."""
    return next((name for name, least in LEVELS.items() if level >= least), "TRACE")
