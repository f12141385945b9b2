"""The report as a single self-contained HTML file with a table and plots.

The templates `report.html` and `plot.svg` define its appearance, this module its content.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final, NamedTuple

from markupsafe import Markup

from cluster.analytics.reports import svg_plot
from cluster.analytics.reports.page_templates import REPORTS, templates
from cluster.analytics.reports.svg_shapes import Plot
from cluster.analytics.reports.usage_history import ClientUsage, Span, Summary
from cluster.analytics.reports.usage_report import UsageReport
from cluster.analytics.reports.usage_table import (
    FULLY_LIMITED_PERCENT,
    OF_LIMIT,
    level,
    usage_table,
)
from cluster.model.printable import one_line
from cluster.views.quantities import clock, duration, percent, rate

_FRAME_HEIGHT: Final = 400
_ROW_HEIGHT: Final = 34
_CARD_HEIGHT: Final = 560


class Cell(NamedTuple):
    """One cell of the table, and the classes that align and color it."""

    text: str
    kind: str


class Card(NamedTuple):
    """One plot and the text above it; `legend` pairs CSS classes of colors with labels."""

    title: str
    user: str
    facts: str
    legend: Sequence[tuple[str, str]]
    plot: Plot


def page(report: UsageReport) -> str:
    """The whole document."""
    span, table = report.span, usage_table(report.shown)
    return (
        templates()
        .get_template("report.html")
        .render(
            title="Quota report",
            style=Markup(files(REPORTS).joinpath("report.css").read_text("utf-8")),
            period=(
                f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC"
                f" in windows of {_width(span.width_s)}"
            ),
            source=report.source,
            tiles=_tiles(report.summary),
            columns=table.columns,
            rows=[
                _row(usage, table.columns, cells)
                for usage, cells in zip(report.shown, table.rows, strict=True)
            ],
            more=report.more,
            own_clients=report.own_clients,
            notes=table.notes,
            cards=[_card(usage, span) for usage in report.page_plots if usage.series],
        )
    )


def height(report: UsageReport) -> int:
    """The height in pixels of `page` on a desktop, for a picture of all of it."""
    rows, cards = len(report.shown), len(report.page_plots)
    return _FRAME_HEIGHT + _ROW_HEIGHT * rows + _CARD_HEIGHT * cards


def _tiles(summary: Summary) -> Sequence[tuple[str, str]]:
    worst = summary.most_throttled
    return (
        ("clients", f"{summary.clients:,}"),
        ("throttled clients", f"{summary.throttled_clients:,}"),
        ("throttle time, all", duration(summary.throttle_ms)),
        ("most throttled", f"{worst.name} ({one_line(worst.quota)})" if worst else "nobody"),
    )


def _row(
    usage: ClientUsage, columns: Sequence[tuple[str, str]], cells: Sequence[str]
) -> Sequence[Cell]:
    return [
        Cell(text, f"{kind} {level(usage)}".strip() if name == OF_LIMIT else kind)
        for (name, kind), text in zip(columns, cells, strict=True)
    ]


def _card(usage: ClientUsage, span: Span) -> Card:
    rule = one_line(usage.rule or "-")
    facts = [f"limit {rate(usage.quota, usage.limit)} per broker ({rule})"]
    if usage.limit is None:
        facts = ["no limit"]
    held = usage.limited_percent
    if held is not None and held < FULLY_LIMITED_PERCENT:
        facts.append(f"a limit held in {percent(held)} of the active time")
    facts += [
        f"average {rate(usage.quota, usage.rate_avg)}",
        f"{percent(usage.throttled_percent)} of requests throttled",
        f"throttle time {duration(usage.throttle_ms)}",
    ]
    legend = [(svg_plot.color(broker), f"broker {broker}") for broker in sorted(usage.series)]
    if usage.limit is not None:
        legend.append(("limit", "limit per broker"))
    return Card(
        title=f"{usage.name} · {one_line(usage.quota)}",
        user=one_line(usage.user or ""),
        facts=" · ".join(facts),
        legend=legend,
        plot=svg_plot.plot(usage, span),
    )


def _width(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
