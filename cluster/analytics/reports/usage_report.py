"""The content of a report on quotas, for a terminal and a page."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.reports.usage_history import (
    ClientUsage,
    Span,
    Summary,
    only_own,
    own_clients,
    span_of,
    summary,
    usages,
    without_own,
)
from cluster.model.printable import one_line
from cluster.model.quotas import QuotaKind
from cluster.views.quantities import duration, percent, rate

PAGE_PLOTS_MAX: Final = 24
"""Limits the length of the page."""
_TERMINAL_PLOTS_MAX: Final = 6


class UsageReport(NamedTuple):
    """The content of a report."""

    shown: Sequence[ClientUsage]
    """The rows of the table, in their order."""
    more: int
    """The number of rows that are left out."""
    own_clients: int
    """The number of Milena's own client ids that are not in `shown`."""
    hidden: Sequence[ClientUsage]
    """The rows of those, which a page lists when it is asked to; at most as many as `shown` may
    have."""
    page_plots: Sequence[ClientUsage]
    terminal_plots: Sequence[ClientUsage]
    more_terminal_plots: int
    """The number of clients with a limit but without a plot on the terminal."""
    summary: Summary
    span: Span
    source: str
    """The place of the windows."""

    @property
    def plotted(self) -> list[ClientUsage]:
        """All clients with plots, which need their series."""
        return list(
            {id(usage): usage for usage in (*self.page_plots, *self.terminal_plots)}.values()
        )


def usage_report(
    found: pa.Table, width_s: int, most: int, source: str, *, with_own: bool
) -> UsageReport:
    """The report of nonempty rows of `totals`, with at most so many rows in its table.

    Milena's own clients are shown only if there are no others. The usages have no series yet.
    """
    others = found if with_own else without_own(found)
    if not others.num_rows:
        others = found
    limited = others.filter(pc.is_valid(others["limit"]))
    by_key: dict[tuple[str | None, str | None, str], ClientUsage] = {}
    first, on_terminal = (
        [
            by_key.setdefault((usage.user, usage.client_id, usage.quota), usage)
            for usage in usages(table)
        ]
        for table in (
            others.slice(0, max(most, PAGE_PLOTS_MAX)),
            limited.slice(0, _TERMINAL_PLOTS_MAX),
        )
    )
    on_page = [usage for usage in first if usage.limit is not None or usage.throttle_ms] or first
    shown = first[:most]
    return UsageReport(
        shown=shown,
        more=others.num_rows - len(shown),
        own_clients=own_clients(found) - own_clients(others),
        hidden=[] if others is found else list(usages(only_own(found).slice(0, most))),
        page_plots=on_page[:PAGE_PLOTS_MAX],
        terminal_plots=on_terminal,
        more_terminal_plots=limited.num_rows - len(on_terminal),
        summary=summary(others),
        span=span_of(others, width_s),
        source=source,
    )


def answer(summary: Summary) -> str:
    """The report in one sentence."""
    clients = _count(summary.clients, "client")
    worst = summary.most_throttled
    if worst is None:
        return "No client was throttled."
    told = (
        f"{summary.throttled_clients:,} of {clients}"
        f" {'was' if summary.throttled_clients == 1 else 'were'} throttled"
    )
    whose = "it" if summary.clients == 1 else worst.name
    used = worst.percent_of_limit
    of_limit = ""
    if used is not None and worst.limit is not None:
        limit = rate(worst.quota, worst.limit)
        if worst.quota == QuotaKind.REQUEST:
            limit += " of a thread"
        which = f"a limit of {limit} per broker" if worst.limits == 1 else "its limits"
        of_limit = f", at {percent(used)} of {which}"
    return (
        f"{told}, most of all {whose}: its {one_line(worst.quota)} quota delayed it by"
        f" {duration(worst.throttle_ms)} in all{of_limit}."
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
