"""The table of a report: its columns, a row for each client and quota, and notes. Pure."""

from collections.abc import Container, Sequence
from typing import Final, NamedTuple, TypeVar

from cluster.analytics.reports.usage_history import ClientUsage
from cluster.model.printable import one_line
from cluster.views.listed_clients import has_users
from cluster.views.quantities import duration, percent, rate

_Cell = TypeVar("_Cell")

OF_LIMIT: Final = "of limit"
"""The column whose color shows how near a client is to its limit."""
_COLUMNS: Final = (
    ("client id", "text"),
    ("user", "text"),
    ("quota", "text"),
    ("rule", "text"),
    ("limit", ""),
    ("avg rate", ""),
    ("max rate", ""),
    (OF_LIMIT, ""),
    ("limited", ""),
    ("throttled", ""),
    ("throttle time", ""),
    ("worst second", ""),
)
_USER: Final = _COLUMNS.index(("user", "text"))
_LIMITED: Final = _COLUMNS.index(("limited", ""))
_LIMITED_NOTE: Final = (
    "LIMITED: the share of the active time in which a limit held. OF LIMIT compares the usage in"
    " that time with the limit; AVG RATE is over all of the active time."
)
_CHANGED: Final = " *"
_CHANGED_NOTE: Final = (
    "* the latest of several limits: OF LIMIT compares the usage with the limit of its time."
)
_FULL_PERCENT: Final = 100.0
_NEAR_PERCENT: Final = 80.0
FULLY_LIMITED_PERCENT: Final = 99.5
"""The share of the active time that is shown as 100."""


class UsageTable(NamedTuple):
    """The table of some clients."""

    columns: Sequence[tuple[str, str]]
    """Headings, and how a column is aligned: `text`, or empty for numbers."""
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    """One line each, about these rows."""


def usage_table(found: Sequence[ClientUsage]) -> UsageTable:
    """The table of these usages.

    It has the column LIMITED if one of them was active without a limit for some time, and USER if
    anybody has logged in.
    """
    left_out = set() if has_users(usage.user for usage in found) else {_USER}
    is_partial = is_partly_limited(found)
    if not is_partial:
        left_out.add(_LIMITED)
    is_changed = any(usage.limits > 1 for usage in found)
    rows = []
    for usage in found:
        limit = rate(usage.quota, usage.limit)
        if is_changed:
            limit += _CHANGED if usage.limits > 1 else " " * len(_CHANGED)
        cells = (
            usage.name,
            one_line(usage.user or "-"),
            one_line(usage.quota),
            one_line(usage.rule or "-"),
            limit,
            rate(usage.quota, usage.rate_avg),
            rate(usage.quota, usage.rate_max),
            percent(usage.percent_of_limit),
            percent(usage.limited_percent),
            percent(usage.throttled_percent),
            duration(usage.throttle_ms),
            duration(usage.throttle_ms_max),
        )
        rows.append(_chosen(cells, left_out))
    notes = [_LIMITED_NOTE] * is_partial + [_CHANGED_NOTE] * is_changed
    return UsageTable(_chosen(_COLUMNS, left_out), rows, notes)


def is_partly_limited(found: Sequence[ClientUsage]) -> bool:
    """Whether one of these usages had a limit for a part of its active time."""
    return any((usage.limited_percent or 100) < FULLY_LIMITED_PERCENT for usage in found)


def _chosen(cells: Sequence[_Cell], left_out: Container[int]) -> list[_Cell]:
    return [cell for index, cell in enumerate(cells) if index not in left_out]


def level(usage: ClientUsage) -> str:
    """How near the usage is to its limit: `over`, `near`, or an empty text."""
    share = usage.percent_of_limit
    if share is None:
        return ""
    return "over" if share > _FULL_PERCENT else "near" if share >= _NEAR_PERCENT else ""
