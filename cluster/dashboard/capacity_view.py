"""Capacity planning on the page: the same figures as `capacity report`, over the last weeks."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

from cluster.dashboard.recent_history import NoHistory, recent_history
from cluster.dashboard.sources import Json

_ROWS_MAX: Final = 50
"""Applies to groups and to events."""


def capacity_view(place: Path, now_ms: int, command: str) -> Json:
    """`report` (`capacity.report.CapacityReport`), and its texts: `period`, `tables` and `busiest`.

    Without windows, `empty` is the reason and `command` creates some. Raises UserError for windows
    that cannot be read.
    """
    try:
        history = recent_history(place, now_ms)
    except NoHistory as none:
        return {"empty": f"{none}. {none.remedy}:", "command": f"{command} rollup"}

    from cluster.analytics.capacity.report import report
    from cluster.analytics.capacity.tables import busiest, period_text, tables

    found = report(history)
    return {
        "report": found.as_json(),
        "period": period_text(found.period),
        "busiest": busiest(found.busy_hours),
        "tables": [asdict(table) for table in tables(found, _ROWS_MAX, _ROWS_MAX)],
    }
