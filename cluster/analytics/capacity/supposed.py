"""Parses a scenario as people write it, on the command line or in the dashboard's page. Pure.

It needs no PyArrow: these are also types for argparse, and a command has its options without it.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, NamedTuple, TypeVar

from cluster.analytics.capacity.scenario import ImpossibleScenario, Scenario
from cluster.model.printable import one_line
from cluster.views.amounts import duration
from cluster.views.supposed_limits import Supposed, supposed

_BROKERS: Final = re.compile(r"[+-]?\d{1,4}")
_BROKERS_MAX: Final = 1000
_GROWTH_MAX: Final = 1000.0
"""A thousandfold."""
_TEXT_MAX_CHARACTERS: Final = 200
"""For an input that is repeated in an error."""

Read = TypeVar("Read")


class Retention(NamedTuple):
    """A retention time."""

    topic: str | None
    """None for all topics."""
    time: timedelta


def brokers(text: str) -> str:
    """Parse `+1`, `-1` or `4`. Raises ArgumentTypeError."""
    text = text.strip()
    if not _BROKERS.fullmatch(text) or not 0 < abs(int(text)) <= _BROKERS_MAX:
        raise argparse.ArgumentTypeError(
            f"must be like +1, -1 or 4, at most {_BROKERS_MAX:,}, not {text}"
        )
    return text


def growth(text: str) -> float:
    """Parse `30%` to 0.3. Raises ArgumentTypeError."""
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a percentage such as 30%, not {text}") from None
    if not -100 < percent <= 100 * _GROWTH_MAX:  # also NaN
        raise argparse.ArgumentTypeError(
            f"must be more than -100% and at most {100 * _GROWTH_MAX:,.0f}%, not {text}"
        )
    return percent / 100


def retention(text: str) -> Retention:
    """Parse `3d` or `orders=3d`. Raises ArgumentTypeError."""
    topic, has_topic, time = text.rpartition("=")
    if has_topic and not topic:
        raise argparse.ArgumentTypeError(f"must be like 3d or orders=3d, not {text}")
    return Retention(topic or None, duration(time))


def scenario_of(
    brokers: str | None,
    growth: float | None,
    retentions: Sequence[Retention],
    quotas: Sequence[Supposed],
) -> Scenario:
    """Make a scenario of parsed values. Raises ImpossibleScenario."""
    if brokers is None and growth is None and not retentions and not quotas:
        raise ImpossibleScenario("name at least one of brokers, growth, retention and a quota")
    if len({each.kind for each in quotas}) < len(quotas):
        raise ImpossibleScenario("give one limit for each key", "quota")
    times = {each.topic: each.time.total_seconds() for each in retentions}
    if len(times) < len(retentions):
        raise ImpossibleScenario(
            "give one time for each topic, and one for all others", "retention"
        )
    return Scenario(
        brokers,
        growth or 0.0,
        times.get(None),
        {topic: seconds for topic, seconds in times.items() if topic is not None},
        {each.kind.value: each.limit for each in quotas},
    )


def written_scenario(
    brokers_text: str | None,
    growth_text: str | None,
    retention_texts: Sequence[str],
    quota_texts: Sequence[str],
) -> Scenario:
    """Make a scenario of texts. Raises ImpossibleScenario with the field that is invalid."""
    return scenario_of(
        None if brokers_text is None else _read("brokers", brokers, brokers_text),
        None if growth_text is None else _read("growth", growth, growth_text),
        [_read("retention", retention, text) for text in retention_texts],
        [_read("quota", supposed, text) for text in quota_texts],
    )


def _read(field: str, read: Callable[[str], Read], text: str) -> Read:
    try:
        return read(text)
    except argparse.ArgumentTypeError as problem:
        raise ImpossibleScenario(one_line(str(problem), _TEXT_MAX_CHARACTERS), field) from None
