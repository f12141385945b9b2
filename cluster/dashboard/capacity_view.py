"""Capacity planning on the page: the same figures as `capacity report`, over the last weeks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cluster.dashboard.sources import Json
from cluster.model.errors import UserError

LAST: Final = timedelta(days=28)
"""Of the history; as many weeks as tell growth from weekdays, read within a second or two."""
_ROWS_MAX: Final = 50
"""Groups and events."""


def capacity_view(place: Path, now_ms: int, command: str) -> Json:
    """`report` (`capacity.report.Report`), and its texts: `period`, `tables` and `busiest`.

    Without windows `empty` says why, and `command` makes some. Raises UserError for windows that
    cannot be read.
    """
    if not place.is_dir():
        return _nothing("The rollup has not written any window yet. This makes them", command)
    try:
        from cluster.analytics.capacity.reading import history_in
        from cluster.analytics.capacity.report import report
        from cluster.analytics.capacity.tables import busiest, period_text, tables
        from cluster.analytics.windows.manifest import UnusableDirectory
    except ImportError:
        return _nothing("What reads the rollup is not installed yet. This installs it", command)
    until = datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(minutes=10)
    try:
        history = history_in(place, until - LAST, until)
    except UnusableDirectory as problem:
        raise UserError(str(problem)) from None
    if not history.end_s:
        return _nothing(
            f"The rollup has no window of the last {LAST.days} days. This adds what is new", command
        )
    found = report(history)
    return {
        "report": found.as_json(),
        "period": period_text(found.period),
        "busiest": busiest(found.busy_hours),
        "tables": [
            {
                "title": table.title,
                "columns": table.columns,
                "rows": table.rows,
                "notes": table.notes,
                "how": table.how,
            }
            for table in tables(found, _ROWS_MAX, _ROWS_MAX)
        ],
    }


def _nothing(why: str, command: str) -> Json:
    return {"empty": f"{why}:", "command": f"{command} rollup"}
