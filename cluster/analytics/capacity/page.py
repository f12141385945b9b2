"""The capacity report as a single self-contained HTML file.

The templates `capacity.html` and, of the reports, `plot.svg` define its appearance.
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

from markupsafe import Markup

from cluster.analytics.capacity import throughput_plot, words
from cluster.analytics.capacity.growth import BusyHours
from cluster.analytics.capacity.report import CapacityReport
from cluster.analytics.capacity.tables import busiest, period_text, tables
from cluster.analytics.reports.page_templates import REPORTS, templates

_HERE: Final = "cluster.analytics.capacity"
_ROWS_MAX: Final = 200


def page(report: CapacityReport, source: str) -> str:
    """The whole document. `source` is the place of the windows."""
    style = "".join(
        files(folder).joinpath(name).read_text("utf-8")
        for folder, name in ((REPORTS, "report.css"), (_HERE, "capacity.css"))
    )
    return (
        templates(_HERE)
        .get_template("capacity.html")
        .render(
            title="Capacity report",
            style=Markup(style),
            period=period_text(report.period),
            source=source,
            tiles=_tiles(report),
            legend=throughput_plot.LEGEND,
            plot=throughput_plot.plot(report.series, report.events),
            plot_how=report.series.how,
            heat=list(_heat(report.busy_hours)),
            busiest=busiest(report.busy_hours),
            busy_how=report.busy_hours.how,
            tables=tables(report, _ROWS_MAX, _ROWS_MAX),
        )
    )


def _tiles(report: CapacityReport) -> Sequence[tuple[str, str]]:
    full = [each for each in report.disks.brokers if each.broker == report.disks.first_full]
    behind = sum(each.verdict == "falls behind" for each in report.lags.groups)
    bottleneck = report.headroom.bottleneck
    return (
        ("bytes in, a day", words.size(report.growth.bytes_in_per_day)),
        ("growth", words.growth(report.growth.trend)),
        (
            "first disk to be full",
            f"broker {full[0].broker}, {words.disk(full[0])}" if full else "none within a year",
        ),
        (
            "bottleneck",
            f"{'-' if bottleneck is None else f'broker {bottleneck}'}; {behind} of"
            f" {len(report.lags.groups)} groups fall behind",
        ),
    )


def _heat(hours: BusyHours) -> Iterator[tuple[str, list[tuple[str | None, str]]]]:
    """Each day with its cells: the share of the highest rate, and its tooltip."""
    highest = hours.busiest[0].bytes_per_s if hours.busiest else 1.0
    for day, rates in zip(hours.days, hours.bytes_per_s, strict=True):
        yield (
            day,
            [
                (None, f"{day} {hour:02}:00: no history")
                if rate is None
                else (f"{rate / highest:.3f}", f"{day} {hour:02}:00: {words.per_second(rate)}")
                for hour, rate in enumerate(rates)
            ],
        )
