"""The windows of the last weeks, for the capacity figures of the page."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError

if TYPE_CHECKING:
    from cluster.analytics.capacity.history import WindowHistory

LAST: Final = timedelta(days=28)
"""Enough weeks to tell growth from weekdays, few enough to be read within a second or two."""


MISSING_READER: Final = (
    "Reading the rollup needs a package that is missing",
    "This installs it or says how",
)
"""What is wrong, and what the command `rollup` does about it."""


class NoHistory(UserError):
    """There is nothing to read; the text is the reason."""

    def __init__(self, why: str, remedy: str) -> None:
        """`remedy` is a sentence about the effect of the command `rollup`."""
        super().__init__(why)
        self.remedy = remedy


def recent_history(place: Path, now_ms: int, *, quotas: Collection[str] = ()) -> "WindowHistory":
    """The history of the last `LAST`, with narrow windows of these quotas.

    Raises NoHistory, and UserError for windows that cannot be read.
    """
    if not place.is_dir():
        raise NoHistory("The rollup has not written any window yet", "This makes them")
    try:
        from cluster.analytics.capacity.reading import history_in
        from cluster.analytics.windows.manifest import UnusableDirectory
    except ImportError:
        raise NoHistory(*MISSING_READER) from None
    until = datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(minutes=10)
    try:
        history = history_in(place, until - LAST, until, quotas=quotas)
    except UnusableDirectory as problem:
        raise UserError(str(problem)) from None
    if not history.end_s:
        raise NoHistory(
            f"The rollup has no window of the last {LAST.days} days", "This adds what is new"
        )
    return history
