"""The report as a single self-contained HTML file with a table and plots.

The templates `report.html` and `plot.svg` define its appearance, this module its content.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cluster.analytics.reports import svg_plot
from cluster.analytics.reports.usage_history import Span, Usage
from cluster.model.printable import one_line
from cluster.views.quantities import clock, duration, percent, rate

PLOTS_MAX: Final = 24
"""Limits the length of the page, as does ROWS_MAX."""
ROWS_MAX: Final = 100
"""Rows of the table, unless an option says how many."""

COLUMNS: Final = (
    ("client id", "text"),
    ("user", "text"),
    ("quota", "text"),
    ("rule", "text"),
    ("limit", ""),
    ("avg rate", ""),
    ("max rate", ""),
    ("of limit", ""),
    ("throttled", ""),
    ("throttle time", ""),
    ("worst second", ""),
)
"""What the table shows, and how a column is aligned."""

_FRAME_HEIGHT: Final = 400
_ROW_HEIGHT: Final = 34
_CARD_HEIGHT: Final = 560
_FOLDER: Final = "cluster.analytics.reports"
_FULL_PERCENT: Final = 100.0
_NEAR_PERCENT: Final = 80.0


def cells(usage: Usage) -> tuple[str, ...]:
    """One row of the table, for the page and for the terminal."""
    return (
        usage.name,
        one_line(usage.user or "-"),
        usage.quota,
        usage.rule or "-",
        rate(usage.quota, usage.limit),
        rate(usage.quota, usage.rate_avg),
        rate(usage.quota, usage.rate_max),
        percent(usage.percent_of_limit),
        percent(usage.throttled_percent),
        duration(usage.throttle_ms),
        duration(usage.throttle_ms_max),
    )


def level(usage: Usage) -> str:
    """How near the use is to its limit: `over`, `near`, or an empty text for neither."""
    share = usage.percent_of_limit
    if share is None:
        return ""
    return "over" if share > _FULL_PERCENT else "near" if share >= _NEAR_PERCENT else ""


class Cell(NamedTuple):
    """One cell of the table, and the classes that align and colour it."""

    text: str
    kind: str


class Card(NamedTuple):
    """One plot and the text above it; `legend` pairs CSS classes of colours with labels."""

    title: str
    user: str
    facts: str
    legend: Sequence[tuple[str, str]]
    plot: svg_plot.Plot


def page(found: Sequence[Usage], span: Span, source: str, most: int = ROWS_MAX) -> str:
    """The whole document. `source` says where the windows came from; the table has so many rows
    at most."""
    return (
        _templates()
        .get_template("report.html")
        .render(
            style=Markup(files(_FOLDER).joinpath("report.css").read_text("utf-8")),
            period=(
                f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC"
                f" in windows of {_width(span.width_s)}"
            ),
            source=source,
            tiles=_tiles(found),
            columns=COLUMNS,
            rows=[_row(usage) for usage in found[:most]],
            more=max(0, len(found) - most),
            cards=[_card(usage, span) for usage in _plotted(found)],
        )
    )


def height(found: Sequence[Usage], most: int = ROWS_MAX) -> int:
    """Pixels in which `page` fits that a desktop shows, for a picture of all of it."""
    rows, cards = min(most, len(found)), len(_plotted(found))
    return _FRAME_HEIGHT + _ROW_HEIGHT * rows + _CARD_HEIGHT * cards


def _plotted(found: Sequence[Usage]) -> Sequence[Usage]:
    plotted = [usage for usage in found if usage.limit is not None or usage.throttle_ms]
    return (plotted or list(found))[:PLOTS_MAX]


def _templates() -> Environment:
    """Everything is escaped: client ids are whatever a client chose to send."""
    return Environment(
        loader=PackageLoader(_FOLDER, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _tiles(found: Sequence[Usage]) -> Sequence[tuple[str, str]]:
    throttled = {usage.name for usage in found if usage.throttled}
    worst = max(found, key=lambda usage: usage.throttle_ms)
    return (
        ("clients", f"{len({(usage.user, usage.client_id) for usage in found}):,}"),
        ("throttled clients", f"{len(throttled):,}"),
        ("throttle time, all", duration(sum(usage.throttle_ms for usage in found))),
        ("most throttled", f"{worst.name} ({worst.quota})" if worst.throttle_ms else "nobody"),
    )


def _row(usage: Usage) -> Sequence[Cell]:
    return [
        Cell(text, f"{kind} {level(usage)}".strip() if name == "of limit" else kind)
        for (name, kind), text in zip(COLUMNS, cells(usage), strict=True)
    ]


def _card(usage: Usage, span: Span) -> Card:
    facts = [f"limit {rate(usage.quota, usage.limit)} per broker ({usage.rule})"]
    if usage.limit is None:
        facts = ["no limit"]
    facts += [
        f"average {rate(usage.quota, usage.rate_avg)}",
        f"{percent(usage.throttled_percent)} of requests throttled",
        f"throttle time {duration(usage.throttle_ms)}",
    ]
    legend = [(svg_plot.colour(broker), f"broker {broker}") for broker in sorted(usage.series)]
    if usage.limit is not None:
        legend.append(("limit", "limit per broker"))
    return Card(
        title=f"{usage.name} · {usage.quota}",
        user=one_line(usage.user or ""),
        facts=" · ".join(facts),
        legend=legend,
        plot=svg_plot.plot(usage, span),
    )


def _width(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
