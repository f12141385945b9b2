"""The windows of a period, found without reading more than needed, and read in pieces.

Wide windows show where narrow ones are, and how many.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows.repair import AHEAD, EARLIEST_S
from cluster.analytics.windows.widths import NARROWEST, WIDTHS_S

EARLIEST: Final = datetime.fromtimestamp(EARLIEST_S, UTC)
"""Windows that begin earlier were made from records of a wrong clock, like those that begin `AHEAD`
after now."""
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
_SUITED: Final = (
    ("10s", timedelta(hours=2)),
    ("1m", timedelta(days=2)),
    ("1h", timedelta(days=60)),
)
"""The width for periods up to each length; longer ones use days."""
_ROWS_AT_ONCE: Final = 1_000_000
"""The approximate rows of a piece: this bounds memory."""
_START: Final = "window_start"

Read = Callable[
    [str, datetime | None, datetime | None, Sequence[str], "pc.Expression | None"], pa.Table
]
"""Reads windows of one kind in order of time.

Arguments: the width, the first start, the end of starts, the columns, and a condition."""
Days = Mapping[str, Sequence[date]]
"""The days with windows by width, in order."""


class Period(NamedTuple):
    """Windows of one kind and width that begin in [`begin`, `end`); not empty."""

    read: Read
    days: Sequence[date]
    width: str
    begin: datetime
    end: datetime

    @property
    def width_s(self) -> int:
        """The width of a window in seconds."""
        return WIDTHS_S[self.width]

    def pieces(
        self, columns: Sequence[str], where: "pc.Expression | None" = None
    ) -> Iterator[pa.Table]:
        """The windows in order of time, in tables of at most some million rows."""
        for begin, end in self._parts():
            yield self.read(self.width, begin, end, columns, where)

    def table(self, columns: Sequence[str]) -> pa.Table:
        """All windows at once, in order of time."""
        return pa.concat_tables(self.pieces(columns))

    def _parts(self) -> Iterator[tuple[datetime, datetime]]:
        """Successive spans from `begin` to `end`."""
        begin, rows = self.begin, 0
        for first, last, most in self._known():
            if begin < first and rows + most > _ROWS_AT_ONCE:
                yield begin, first
                begin, rows = first, 0
            rows += most
            while rows > _ROWS_AT_ONCE and begin < last:
                windows = max(1, (last - first) // self._size * _ROWS_AT_ONCE // most)
                upto = min(begin + windows * self._size, last)
                yield begin, upto
                begin = upto
            rows = rows if begin < last else 0
        if begin < self.end:
            yield begin, self.end

    def _known(self) -> Iterator[tuple[datetime, datetime, int]]:
        """Hours, or days for wide windows, with an upper bound of their rows."""
        is_wide = self._size >= _HOUR
        for day in self.days:
            first, last = max(_start(day), self.begin), min(_start(day) + _DAY, self.end)
            if first >= last:
                continue
            if is_wide:
                yield first, last, _ROWS_AT_ONCE
                continue
            starts = self.read("1h", _floor(first, _HOUR), last, [_START], None)[_START]
            counted = pc.value_counts(starts).to_pylist()
            for each in sorted(counted, key=lambda one: one["values"]):
                hour: datetime = each["values"]
                begin, end = max(hour, first), min(hour + _HOUR, last)
                yield begin, end, each["counts"] * -((begin - end) // self._size)

    @property
    def _size(self) -> timedelta:
        return timedelta(seconds=self.width_s)


def period_of(
    read: Read,
    days: Days,
    width: str | None,
    begin: datetime,
    end: datetime,
    last: timedelta | None,
) -> Period | None:
    """The windows of a report; None if there are none.

    Of those that begin in [`begin`, `end`), `last` keeps those that begin within that time before
    the latest. Without a width a suitable one is chosen.
    """
    latest = _edge(read, days, width, begin, end, from_end=True)
    if latest is None:
        return None
    end = latest + timedelta(microseconds=1)
    if last is not None and last < latest - begin:
        begin = latest - last + timedelta(microseconds=1)
    earliest = _edge(read, days, width, begin, end, from_end=False) or latest
    chosen = width or _suitable(days, earliest, latest)
    begin = max(begin, _floor(earliest, timedelta(seconds=WIDTHS_S[chosen])))
    return Period(read, days.get(chosen, ()), chosen, begin, end)


def impossible_windows(
    read: Read, days: Days, since: datetime | None, until: datetime | None, now: datetime
) -> int:
    """The number of the narrowest windows that begin before EARLIEST, or too long after `now`."""
    ahead = now + AHEAD
    there = days.get(NARROWEST, ())
    found = 0
    if there and there[0] < EARLIEST.date() and (since is None or since < EARLIEST):
        end = EARLIEST if until is None else min(until, EARLIEST)
        found += read(NARROWEST, since, end, [_START], None).num_rows
    if there and there[-1] >= ahead.date() and (until is None or until > ahead):
        begin = ahead if since is None else max(since, ahead)
        found += read(NARROWEST, begin, until, [_START], None).num_rows
    return found


def _edge(
    read: Read, days: Days, width: str | None, begin: datetime, end: datetime, *, from_end: bool
) -> datetime | None:
    """When the first or last window begins, of a width or of the narrowest one that is kept; None
    without windows.
    """
    widths = list(WIDTHS_S)
    widths = widths[widths.index(width or NARROWEST) :]
    known = {name: frozenset(days.get(name, ())) for name in widths}
    wanted = known[width] if width else frozenset[date]().union(*known.values())
    for day in sorted(wanted, reverse=from_end):
        first, last = max(begin, _start(day)), min(end, _start(day) + _DAY)
        there = [name for name in widths if day in known[name]]
        if len(there) > 1 and there[-1] == widths[-1]:
            there.pop()  # says nothing that the next does not
        if first < last:
            found = _edge_within(read, there, first, last, is_exact=bool(width), from_end=from_end)
            if found is not None:
                return found
    return None


def _edge_within(
    read: Read,
    widths: Sequence[str],
    begin: datetime,
    end: datetime,
    *,
    is_exact: bool,
    from_end: bool,
) -> datetime | None:
    """Like `_edge`, within a day. `widths` begins with the narrowest; the widest is read first.

    `is_exact`: only for the narrowest of them.
    """
    if not widths:
        return None
    *narrower, width = widths
    size = timedelta(seconds=WIDTHS_S[width])
    starts = pc.unique(read(width, _floor(begin, size), end, [_START], None)[_START]).to_pylist()
    if not starts:
        return _edge_within(read, narrower, begin, end, is_exact=is_exact, from_end=from_end)
    for start in sorted(starts, reverse=from_end):
        inside = max(begin, start), min(end, start + size)
        found = _edge_within(read, narrower, *inside, is_exact=is_exact, from_end=from_end)
        if found is None and start >= begin and not (is_exact and narrower):
            found = start  # narrower ones have been removed
        if found is not None:
            return found
    return None


def _suitable(days: Days, earliest: datetime, latest: datetime) -> str:
    """The width for a period, or a wider one if that has been removed."""
    widths = list(WIDTHS_S)
    suited = next((name for name, most in _SUITED if latest - earliest <= most), widths[-1])
    wider = widths[widths.index(suited) :]
    kept = (name for name in wider if earliest.date() in days.get(name, ()))
    return next(kept, NARROWEST)


def _start(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _floor(time: datetime, size: timedelta) -> datetime:
    return time - (time - EARLIEST) % size
