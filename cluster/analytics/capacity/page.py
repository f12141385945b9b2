"""The capacity report as a single self-contained HTML file.

The templates `capacity.html` and, of the reports, `chart.html` define its appearance.
"""

from collections.abc import Sequence
from typing import Final

from cluster.analytics.capacity import heat_plot, throughput_plot, words
from cluster.analytics.capacity.disks import BrokerDisk
from cluster.analytics.capacity.report import CapacityReport
from cluster.analytics.capacity.tables import busiest, period_text, tables
from cluster.analytics.reports.page_templates import document

_HERE: Final = "cluster.analytics.capacity"
_ROWS_MAX: Final = 200


def page(report: CapacityReport, source: str) -> str:
    """The whole document. `source` is the place of the windows."""
    return document(
        "capacity.html",
        _HERE,
        title="Capacity report",
        answer=answer(report),
        period=period_text(report.period),
        source=source,
        tiles=_tiles(report),
        plot=throughput_plot.plot(report.series, report.events),
        plot_how=report.series.how,
        heat=heat_plot.plot(report.busy_hours),
        busiest=busiest(report.busy_hours),
        busy_how=report.busy_hours.how,
        tables=tables(report, _ROWS_MAX, _ROWS_MAX),
    )


def answer(report: CapacityReport) -> str:
    """The report in one sentence: the disks, then traffic, then groups."""
    trend = report.growth.trend
    traffic = {
        "unknown": "the history is too short for the growth of traffic",
        "steady": "traffic shows no trend",
    }.get(trend.verdict, f"traffic {trend.verdict}")
    if trend.verdict in {"grows", "shrinks"} and trend.percent_per_day is not None:
        traffic += f" by {abs(trend.percent_per_day):.1f} % a day"
    parts = [_first_disk(report), traffic]
    if report.lags.groups:
        behind, of_groups = _behind(report)
        parts.append(
            f"{behind or 'none'} of {of_groups} {'fall' if behind > 1 else 'falls'} behind"
        )
    told = "; ".join(parts)
    return f"{told[0].upper()}{told[1:]}."


def _first_disk(report: CapacityReport) -> str:
    first = _first(report)
    if first is None:
        if _is_unknown(report):
            return "it is not yet known when a disk will be full"
        return "no disk will be full within a year at the present pace"
    when = words.disk(first)
    pace = "" if when == "now" else " at the present pace"
    return f"the disk of broker {first.broker} is full {when}{pace}"


def _first(report: CapacityReport) -> BrokerDisk | None:
    """The disk that is full first, within a year."""
    found = (each for each in report.disks.brokers if each.broker == report.disks.first_full)
    return next(found, None)


def _is_unknown(report: CapacityReport) -> bool:
    """Whether another disk may be full earlier than those of which it is known."""
    brokers = report.disks.brokers
    return not brokers or any(each.verdict == "unknown" for each in brokers)


def _behind(report: CapacityReport) -> tuple[int, str]:
    """How many groups fall behind, and of how many."""
    groups = report.lags.groups
    behind = sum(each.verdict == "falls behind" for each in groups)
    return behind, f"{len(groups):,} {'group' if len(groups) == 1 else 'groups'}"


def _tiles(report: CapacityReport) -> Sequence[tuple[str, str]]:
    first, bottleneck = _first(report), report.headroom.bottleneck
    full = "not yet known" if _is_unknown(report) else "none within a year"
    behind, of_groups = _behind(report)
    return (
        ("bytes in, a day", words.size(report.growth.bytes_in_per_day)),
        ("growth", words.growth(report.growth.trend)),
        (
            "first disk to be full",
            full if first is None else f"broker {first.broker}, {words.disk(first)}",
        ),
        ("bottleneck", "not yet known" if bottleneck is None else f"broker {bottleneck}"),
        ("groups that fall behind", f"{behind} of {of_groups}"),
    )
