"""Reads the windows for capacity planning: hours, and narrower ones if there are few enough.

For a short time, hours are added up from windows of a minute, so that they begin and end with it.
"""

import functools
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.windows.kinds import (
    BROKER,
    EVENT,
    KIND_OF,
    LAG,
    LATENCY,
    QUOTA,
    TOPIC,
    WindowKind,
)
from cluster.analytics.windows.reading import Place, read_windows
from cluster.analytics.windows.widths import WIDTHS_S
from cluster.analytics.windows.window_sums import coarser, sums_of, windows_of

_SHORT: Final = timedelta(hours=6)
_FINE_WIDTHS: Final = (("10s", _SHORT), ("1m", timedelta(days=8)))
"""Longer histories use windows of an hour only."""
_QUOTA_WIDTHS: Final = (("10s", timedelta(hours=6)), ("1m", timedelta(days=2)))
"""Quotas may have windows of thousands of clients."""
_HOURS_OF: Final = (BROKER, TOPIC, LATENCY)
_LAG_SPAN: Final = timedelta(hours=26)
"""The time before the end of the history: more would fill memory with thousands of partitions and
is not needed (`lags.py`)."""
_FINE_OF: Final = (BROKER, EVENT)
_START: Final = ("window_start",)
_USAGE: Final = ("window_start", "quota", "usage_exact")


class ReadWindows(Protocol):
    """Reads the windows of a kind and width that begin in [since, until)."""

    def __call__(
        self,
        kind: WindowKind,
        width: str,
        since: datetime | None = None,
        until: datetime | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table: ...


def history_in(
    place: Place,
    since: datetime | None = None,
    until: datetime | None = None,
    last: timedelta | None = None,
    *,
    quotas: Collection[str] = (),
) -> WindowHistory:
    """The history in a rollup's directory between two times, or for some time before its latest
    window.

    `quotas`: those whose narrow windows are needed. Raises what `read_windows` raises.
    """
    return read_history(functools.partial(read_windows, place), since, until, last, quotas=quotas)


def read_history(
    read: ReadWindows,
    since: datetime | None = None,
    until: datetime | None = None,
    last: timedelta | None = None,
    *,
    quotas: Collection[str] = (),
) -> WindowHistory:
    """The same for windows that `read` reads."""
    hours = {kind.name: read(kind, "1h", _floored(since), until) for kind in _HOURS_OF}
    if not hours[BROKER.name].num_rows and not hours[TOPIC.name].num_rows:
        hours[QUOTA.name] = read(QUOTA, "1h", _floored(since), until, _USAGE)
    edges = _edges(read, hours, since, until)
    if edges is None:
        return WindowHistory({}, {}, WIDTHS_S["1m"])
    first, end = edges
    if LAG.name not in hours:
        recent = max(first, end - _LAG_SPAN)
        hours[LAG.name] = read(LAG, "1h", _floored(recent), until)
    if last is not None:
        since = max(first, end - min(last, end - first))
    first = first if since is None else max(first, since)
    span = end - first
    width = next((width for width, most in _FINE_WIDTHS if span <= most), "1h")
    fine = {kind.name: read(kind, width, since, until) for kind in _FINE_OF}
    widths = {QUOTA.name: next((width for width, most in _QUOTA_WIDTHS if span <= most), "1h")}
    if span <= _SHORT:
        minutes = {name: read(KIND_OF[name], "1m", since, until) for name in hours}
        hours = {name: _hours_of(table, KIND_OF[name]) for name, table in minutes.items()}
        for name in (LAG.name, LATENCY.name):
            fine[name] = minutes[name]
            widths[name] = "1m"
    elif last is not None:
        hours = {name: _since(table, _floored(since)) for name, table in hours.items()}
    if quotas:
        is_asked = pc.field("quota").isin(list(quotas))
        fine[QUOTA.name] = read(QUOTA, widths[QUOTA.name], since, until, where=is_asked)
    widths_s = {name: WIDTHS_S[each] for name, each in widths.items()}
    return WindowHistory(hours, fine, WIDTHS_S[width], widths_s)


def _edges(
    read: ReadWindows,
    hours: dict[str, pa.Table],
    since: datetime | None,
    until: datetime | None,
) -> tuple[datetime, datetime] | None:
    """The start of the first window, rounded to the hour, and the end of the last, to the minute.

    If there are only windows of lags, these are added to `hours`.
    """
    known = [bounds for table in hours.values() if (bounds := _bounds(table)) is not None]
    if not known:
        hours[LAG.name] = read(LAG, "1h", _floored(since), until)
        known = [bounds for bounds in [_bounds(hours[LAG.name])] if bounds is not None]
    if not known:
        bounds = _bounds(read(EVENT, "1m", since, until, _START))
        return None if bounds is None else (bounds[0], bounds[1] + timedelta(minutes=1))
    latest = max(last for _, last in known)
    kinds = dict.fromkeys([*hours, LAG.name])
    ends = [_bounds(read(KIND_OF[name], "1m", latest, until, _START)) for name in kinds]
    last = max((bounds[1] for bounds in ends if bounds is not None), default=latest)
    return min(first for first, _ in known), last + timedelta(minutes=1)


def _hours_of(minutes: pa.Table, kind: WindowKind) -> pa.Table:
    return windows_of(coarser(sums_of(minutes, kind), kind, "1h"), kind, "1h")


def _since(windows: pa.Table, since: datetime | None) -> pa.Table:
    starts = windows["window_start"]
    return windows.filter(pc.greater_equal(starts, pa.scalar(since, starts.type)))


def _bounds(windows: pa.Table) -> tuple[datetime, datetime] | None:
    """The first and the last start."""
    if not windows.num_rows:
        return None
    found = pc.min_max(windows["window_start"]).as_py()
    return found["min"], found["max"]


def _floored(time: datetime | None) -> datetime | None:
    """The start of its hour."""
    if time is None:
        return None
    return time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
