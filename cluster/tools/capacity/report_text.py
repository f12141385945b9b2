"""The capacity report as text. Pure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cluster.analytics.capacity import words
from cluster.analytics.capacity.answer import answer
from cluster.analytics.capacity.tables import NUMBER, Table, busiest, period_text, tables
from cluster.runtime.text_table import table_text

if TYPE_CHECKING:
    from cluster.analytics.capacity.growth import BusyHours
    from cluster.analytics.capacity.report import CapacityReport, CoveredPeriod

_EVENTS_MAX: Final = 20
_GROUPS_MAX: Final = 30
_SHADES: Final = " ░▒▓█"


def report_text(report: "CapacityReport", source: str, *, explain: bool) -> Iterator[str]:
    """The lines of the report; `explain` adds to each section how its figures were computed."""
    yield f"{answer(report)}\n"
    yield period_line(report.period, source)
    growth, topics, disks, *others = tables(report, _GROUPS_MAX, _EVENTS_MAX)
    for table in (growth, topics, disks):
        yield from section(table, explain=explain)
    yield "\nBusiest hours of the week, UTC"
    yield from (f"  {line}" for line in _hours(report.busy_hours))
    if explain:
        yield f"  How: {report.busy_hours.how}."
    for table in others:
        yield from section(table, explain=explain)
    if not explain:
        yield "\nHow each figure was reached: --explain"


def period_line(period: "CoveredPeriod", source: str) -> str:
    """The begin and end of the period, and the contents of the history."""
    return f"{period_text(period)}, windows of 1 h and of {period.fine_s} s in {source}"


def section(table: Table, *, explain: bool) -> Iterator[str]:
    """The lines of one table, below its title."""
    yield f"\n{table.title}"
    if table.rows:
        headings = [name.upper() for name, _ in table.columns]
        right = [name.upper() for name, kind in table.columns if kind == NUMBER]
        yield table_text(headings, table.rows, right=right, indent="  ")
    yield from (f"  {note}" for note in table.notes)
    if explain:
        yield f"  How: {table.how}."


def _hours(hours: "BusyHours") -> Iterator[str]:
    if hours.busiest:
        highest = hours.busiest[0].bytes_per_s
        yield " " * 10 + "".join(f"{hour:<3}" for hour in range(24)).rstrip()
        for day, rates in zip(hours.days, hours.bytes_per_s, strict=True):
            cells = ["· " if rate is None else _shade(rate / highest) * 2 for rate in rates]
            yield f"{day:<9} {' '.join(cells)}".rstrip()
        yield f"{_SHADES[-1] * 2} {words.per_second(highest)} in and out;  · no history"
    yield busiest(hours)


def _shade(share: float) -> str:
    return _SHADES[min(len(_SHADES) - 1, round(share * (len(_SHADES) - 1)))]
