"""The capacity report as a single self-contained HTML file.

The templates `capacity.html` and, of the reports, `chart.html` define its appearance.
"""

from collections.abc import Sequence
from typing import Final

from cluster.analytics.capacity import heat_plot, throughput_plot, words
from cluster.analytics.capacity.answer import answer, behind, first_disk, is_unknown
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


def _tiles(report: CapacityReport) -> Sequence[tuple[str, str]]:
    first, bottleneck = first_disk(report), report.headroom.bottleneck
    full = "not yet known" if is_unknown(report) else "none within a year"
    known = ["bytes in", "a day", words.as_in_these(report.period.days)]
    return (
        (", ".join(filter(None, known)), words.size(report.growth.bytes_in_per_day)),
        ("growth", words.growth(report.growth.trend)),
        (
            "first disk to be full",
            full if first is None else f"broker {first.broker}, {words.disk(first)}",
        ),
        ("bottleneck", "not yet known" if bottleneck is None else f"broker {bottleneck}"),
        ("groups that fall behind", behind(report)),
    )
