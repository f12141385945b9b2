"""Other sizes on the page: the same figures as `capacity what-if`, over the last weeks."""

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from cluster.analytics.capacity.scenario import Scenario
from cluster.dashboard.quota_command import written
from cluster.dashboard.recent_history import LAST, recent_history
from cluster.dashboard.sources import Json
from cluster.model.quotas import KEY_OF_KIND, QuotaKind

_CLIENTS_MAX: Final = 20


def what_if_view(place: Path, scenario: Scenario, now_ms: int, command: str) -> Json:
    """`what_if` (the output of `capacity what-if --json`), its texts, and the command line.

    The texts: `period`, `supposed`, `first` and `tables`. Raises UserError without a result, and
    ImpossibleScenario for an invalid scenario.
    """
    history = recent_history(place, now_ms, quotas=list(scenario.quotas))

    from cluster.analytics.capacity.tables import period_text
    from cluster.analytics.capacity.what_if import what_if
    from cluster.analytics.capacity.what_if_tables import (
        first_text,
        supposed_text,
        what_if_tables,
    )

    found = what_if(history, scenario)
    return {
        "what_if": found.as_json(),
        "period": period_text(found.period),
        "supposed": supposed_text(found),
        "first": first_text(found),
        "tables": [asdict(table) for table in what_if_tables(found, _CLIENTS_MAX)],
        "command": what_if_command(command, scenario),
    }


def what_if_command(program: str, scenario: Scenario) -> str:
    """The command line with the same result; `program` is the launcher, quoted for a shell."""
    words = [*_options(scenario), "--last", f"{LAST.days}d"]
    return f"{program} capacity what-if {shlex.join(words)}"


def _options(scenario: Scenario) -> Iterator[str]:
    if scenario.brokers is not None:
        yield from ("--brokers", scenario.brokers)
    if scenario.growth:
        yield from ("--growth", f"{written(100 * scenario.growth)}%")
    if scenario.retention_s is not None:
        yield from ("--retention", _time(scenario.retention_s))
    for topic, seconds in scenario.topic_retention_s.items():
        yield from ("--retention", f"{topic}={_time(seconds)}")
    for kind, limit in scenario.quotas.items():
        yield from ("--quota", f"{KEY_OF_KIND[QuotaKind(kind)]}={written(limit)}")


def _time(seconds: float) -> str:
    """The time in the largest unit without a remainder."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
