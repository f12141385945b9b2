"""What a report of quotas shows on a terminal and on a page, of all that was used."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.reports.usage_history import (
    ClientUsage,
    Span,
    Summary,
    own_clients,
    span_of,
    summary,
    usages,
    without_own,
)

PAGE_PLOTS_MAX: Final = 24
"""Limits the length of the page."""
_TERMINAL_PLOTS_MAX: Final = 6


class UsageReport(NamedTuple):
    """What is shown."""

    shown: Sequence[ClientUsage]
    """The rows of the table, in their order."""
    more: int
    """How many rows are left out."""
    own_clients: int
    """How many of Milena's own client ids are left out."""
    page_plots: Sequence[ClientUsage]
    terminal_plots: Sequence[ClientUsage]
    more_terminal_plots: int
    """How many clients with a limit have no plot on a terminal."""
    summary: Summary
    span: Span
    source: str
    """Where the windows came from."""

    @property
    def plotted(self) -> list[ClientUsage]:
        """All that have plots, which their series are needed for."""
        return list(
            {id(usage): usage for usage in (*self.page_plots, *self.terminal_plots)}.values()
        )


def usage_report(
    found: pa.Table, width_s: int, most: int, source: str, *, with_own: bool
) -> UsageReport:
    """The report of the rows of `totals`, of which there are some; of its table at most so many.

    Milena's own clients are shown if nobody else is there, too. The usages have no series yet.
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
        page_plots=on_page[:PAGE_PLOTS_MAX],
        terminal_plots=on_terminal,
        more_terminal_plots=limited.num_rows - len(on_terminal),
        summary=summary(others),
        span=span_of(others, width_s),
        source=source,
    )
