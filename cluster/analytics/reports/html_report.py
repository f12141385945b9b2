"""The report as a single self-contained HTML file with a table and charts.

The templates `report.html` and `chart.html` define its appearance, this module its content.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from cluster.analytics.reports import svg_plot
from cluster.analytics.reports.page_templates import document
from cluster.analytics.reports.svg_shapes import Plot
from cluster.analytics.reports.usage_history import ClientUsage, Span, Summary
from cluster.analytics.reports.usage_report import UsageReport, answer
from cluster.analytics.reports.usage_table import (
    FULLY_LIMITED_PERCENT,
    is_partly_limited,
    level,
)
from cluster.model.printable import one_line
from cluster.views.listed_clients import Hidden, has_users, hidden_words
from cluster.views.quantities import clock, duration, percent, rate
from cluster.views.rule_words import APPLIES_TO

_FRAME_HEIGHT: Final = 420
_ROW_HEIGHT: Final = 50
_CARD_HEIGHT: Final = 520


class Cell(NamedTuple):
    """One cell of the table, and the classes that align and color it."""

    text: str
    kind: str = "number"


class Client(NamedTuple):
    """A client of the table, with a row per quota; `anchor` is the place of its first chart."""

    name: str
    user: str
    anchor: str
    rows: Sequence[Sequence[Cell]]


class Card(NamedTuple):
    """One chart and the text above it."""

    anchor: str
    title: str
    user: str
    facts: str
    plot: Plot


def page(report: UsageReport, *, with_script: bool = True) -> str:
    """The whole document."""
    span = report.span
    shown = [*report.shown, *report.hidden]
    with_users = has_users(usage.user for usage in shown)
    plotted = [usage for usage in report.page_plots if usage.series]
    anchors: dict[tuple[str | None, str | None], str] = {}
    cards = []
    for at, usage in enumerate(plotted):
        anchor = f"chart-{at + 1}"
        anchors.setdefault((usage.user, usage.client_id), anchor)
        cards.append(_card(usage, span, anchor, with_users=with_users))
    is_partial = is_partly_limited(shown)
    return document(
        "report.html",
        with_script=with_script,
        title="Quota report",
        answer=answer(report.summary).replace(" %", "\u00a0%"),
        period=(
            f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC"
            f" in windows of {_width(span.width_s)}"
        ),
        source=report.source,
        tiles=_tiles(report.summary),
        columns=_columns(is_partial=is_partial),
        clients=_clients(report.shown, anchors, is_partial=is_partial, with_users=with_users),
        hidden=_clients(report.hidden, anchors, is_partial=is_partial, with_users=with_users),
        hidden_words=hidden_words([Hidden.OWN] * report.own_clients),
        more=report.more,
        is_partial=is_partial,
        is_changed=any(usage.limits > 1 for usage in shown),
        cards=cards,
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
        ("throttle time, all brokers", duration(summary.throttle_ms)),
        ("most throttled", f"{worst.name} ({one_line(worst.quota)})" if worst else "none"),
    )


def _columns(*, is_partial: bool) -> list[tuple[str, str]]:
    """Headings, and how a column is aligned."""
    return [
        *(("Quota", "quota"), ("Applies to", "text"), ("Limit per broker", "number")),
        *(("Average rate", "number"), ("Highest rate", "number"), ("Used of limit", "number")),
        *([("Time with a limit", "number")] if is_partial else []),
        *(("Requests throttled", "number"), ("Throttle time", "number")),
        ("Worst second", "number"),
    ]


def _clients(
    found: Iterable[ClientUsage],
    anchors: dict[tuple[str | None, str | None], str],
    *,
    is_partial: bool,
    with_users: bool,
) -> list[Client]:
    """The clients in the order of their first quota, each with all of its quotas."""
    first: dict[tuple[str | None, str | None], int] = {}
    for at, usage in enumerate(found):
        first.setdefault((usage.user, usage.client_id), at)
    together = sorted(found, key=lambda usage: first[usage.user, usage.client_id])
    return [
        Client(
            name=quotas[0].name,
            user=_user(quotas[0], with_users=with_users),
            anchor=anchors.get(key, ""),
            rows=[_row(usage, is_partial=is_partial) for usage in quotas],
        )
        for key, group in groupby(together, lambda usage: (usage.user, usage.client_id))
        if (quotas := list(group))
    ]


def _user(usage: ClientUsage, *, with_users: bool) -> str:
    return one_line(usage.user or "") if with_users else ""


def _row(usage: ClientUsage, *, is_partial: bool) -> list[Cell]:
    """The cells of a quota; those that would say nothing are empty."""
    limited = [Cell("", "text"), Cell("no limit")]
    if usage.limit is not None:
        latest = " *" if usage.limits > 1 else ""
        limited = [
            Cell(_applies_to(usage), "text"),
            Cell(f"{rate(usage.quota, usage.limit)}{latest}"),
        ]
    throttled = [Cell("none"), Cell(""), Cell("")]
    if usage.throttled or usage.throttle_ms:
        times = (usage.throttle_ms, usage.throttle_ms_max)
        throttled = [Cell(percent(usage.throttled_percent)), *(Cell(duration(ms)) for ms in times)]
    return [
        Cell(one_line(usage.quota), "quota"),
        *limited,
        Cell(rate(usage.quota, usage.rate_avg)),
        Cell(rate(usage.quota, usage.rate_max)),
        Cell(_known(usage.percent_of_limit), f"number {level(usage)}".strip()),
        *([Cell(_known(usage.limited_percent))] if is_partial else []),
        *throttled,
    ]


def _known(share: float | None) -> str:
    return "" if share is None else percent(share)


def _applies_to(usage: ClientUsage) -> str:
    return APPLIES_TO.get(usage.rule or "", one_line(usage.rule or ""))


def _card(usage: ClientUsage, span: Span, anchor: str, *, with_users: bool) -> Card:
    facts = ["no limit"]
    if usage.limit is not None:
        for_whom = f", set for {_applies_to(usage)}" if usage.rule else ""
        facts = [f"limit {rate(usage.quota, usage.limit)} per broker{for_whom}"]
    held = usage.limited_percent
    if held is not None and held < FULLY_LIMITED_PERCENT:
        facts.append(f"a limit held in {percent(held)} of the active time")
    facts.append(f"average {rate(usage.quota, usage.rate_avg)}")
    if usage.throttled or usage.throttle_ms:
        facts.append(f"{percent(usage.throttled_percent)} of requests throttled")
        facts.append(f"throttle time {duration(usage.throttle_ms)}")
    else:
        facts.append("never throttled")
    return Card(
        anchor=anchor,
        title=f"{usage.name} · {one_line(usage.quota)}",
        user=_user(usage, with_users=with_users),
        facts=" · ".join(facts),
        plot=svg_plot.plot(usage, span),
    )


def _width(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
