"""The report as one HTML file that needs nothing else: table and plots. Pure."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from cluster.analytics import svg_plot
from cluster.analytics.quantities import clock, duration, percent, rate
from cluster.analytics.usage_history import Span, Usage
from cluster.model.printable import one_line

PLOTS_MAX: Final = 24
"""A page with more is one that nobody reads; the table has every row."""

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
    """How near the limit: `over`, `near`, or `` for neither."""
    share = usage.percent_of_limit
    if share is None:
        return ""
    return "over" if share > _FULL_PERCENT else "near" if share >= _NEAR_PERCENT else ""


def page(found: Sequence[Usage], span: Span, source: str) -> str:
    """The whole document. `source` says where the windows came from."""
    style = files("cluster.analytics").joinpath("report.css").read_text("utf-8")
    plotted = [usage for usage in found if usage.limit is not None or usage.throttle_ms]
    plotted = (plotted or list(found))[:PLOTS_MAX]
    period = (
        f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC"
        f" in windows of {_width(span.width_s)}"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Quota report</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>Quota report</h1>
<p>{escape(period)} · from {escape(source)}</p>
</header>
<main>
<section class="tiles">
{"".join(_tiles(found))}</section>
<section class="card">
<h2>Clients</h2>
<div class="scroll">
<table>
<thead><tr>{"".join(_heads())}</tr></thead>
<tbody>
{"".join(map(_row, found))}</tbody>
</table>
</div>
<p class="note">Limits and rates are per broker, as Kafka's quotas are. The average counts the
seconds in which a client was active. The worst second is the most throttle time that one broker
handed out within a second.</p>
</section>
{"".join(_card(usage, span) for usage in plotted)}</main>
</body>
</html>
"""


def _tiles(found: Sequence[Usage]) -> Iterable[str]:
    throttled = {usage.name for usage in found if usage.throttled}
    worst = max(found, key=lambda usage: usage.throttle_ms)
    tiles = (
        ("clients", f"{len({(usage.user, usage.client_id) for usage in found}):,}"),
        ("throttled clients", f"{len(throttled):,}"),
        ("throttle time, all", duration(sum(usage.throttle_ms for usage in found))),
        ("most throttled", f"{worst.name} ({worst.quota})" if worst.throttle_ms else "nobody"),
    )
    return (
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b></div>\n'
        for name, value in tiles
    )


def _heads() -> Iterable[str]:
    return (f'<th class="{kind}">{escape(name)}</th>' for name, kind in COLUMNS)


def _row(usage: Usage) -> str:
    shown = "".join(
        f'<td class="{kind}{_meter_class(name, usage)}">{escape(text)}</td>'
        for (name, kind), text in zip(COLUMNS, cells(usage), strict=True)
    )
    return f"<tr>{shown}</tr>\n"


def _meter_class(column: str, usage: Usage) -> str:
    return f" {level(usage)}" if column == "of limit" and level(usage) else ""


def _card(usage: Usage, span: Span) -> str:
    facts = [f"limit {rate(usage.quota, usage.limit)} per broker ({usage.rule})"]
    if usage.limit is None:
        facts = ["no limit"]
    facts += [
        f"average {rate(usage.quota, usage.rate_avg)}",
        f"{percent(usage.throttled_percent)} of requests throttled",
        f"throttle time {duration(usage.throttle_ms)}",
    ]
    legend = "".join(
        f'<li><i class="{svg_plot.colour(broker)}"></i>broker {broker}</li>'
        for broker in sorted(usage.series)
    )
    if usage.limit is not None:
        legend += '<li><i class="limit"></i>limit per broker</li>'
    user = f" <small>user {escape(one_line(usage.user))}</small>" if usage.user else ""
    return f"""<section class="card">
<h2>{escape(usage.name)} · {escape(usage.quota)}{user}</h2>
<p class="facts">{escape(" · ".join(facts))}</p>
<ul class="legend">{legend}</ul>
{svg_plot.plot(usage, span)}
</section>
"""


def _width(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
