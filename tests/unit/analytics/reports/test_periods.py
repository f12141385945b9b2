"""The windows of a report, and the pieces in which they are read."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.reports import periods
from cluster.analytics.reports.periods import EARLIEST, impossible_windows, period_of
from cluster.analytics.windows.kinds import TIMESTAMP
from cluster.analytics.windows.repair import AHEAD
from cluster.analytics.windows.widths import WIDTHS_S

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = datetime(2027, 1, 1, tzinfo=UTC)


class Windows:
    """Windows of some clients at given times, of every kept width; counts the rows read."""

    def __init__(
        self, starts: Sequence[datetime], kept: Sequence[str] = tuple(WIDTHS_S), clients: int = 1
    ) -> None:
        self.rows_read = 0
        self.largest = 0
        self._starts = {
            width: clients
            * sorted(
                {
                    start - (start - EARLIEST) % timedelta(seconds=WIDTHS_S[width])
                    for start in starts
                    if width in kept
                }
            )
            for width in WIDTHS_S
        }

    @property
    def days(self) -> dict[str, list[date]]:
        return {
            width: sorted({each.date() for each in found}) for width, found in self._starts.items()
        }

    def read(self, width, since, until, columns, where=None) -> pa.Table:
        found = [
            start
            for start in self._starts[width]
            if (since is None or start >= since) and (until is None or start < until)
        ]
        self.rows_read += len(found)
        self.largest = max(self.largest, len(found))
        return pa.table({"window_start": pa.array(found, TIMESTAMP)})

    def period(self, width=None, begin=EARLIEST, end=END, last=None):
        return period_of(self.read, self.days, width, begin, end, last)


def starts_of(period) -> list[datetime]:
    return period.table(["window_start"])["window_start"].to_pylist()


def at(*seconds: int) -> list[datetime]:
    return [NOON + timedelta(seconds=each) for each in seconds]


@pytest.mark.parametrize(
    ("spans", "width"),
    [
        ((0, 7200), "10s"),
        ((0, 7210), "1m"),
        ((0, 2 * 86_400), "1m"),
        ((0, 3 * 86_400), "1h"),
        ((0, 61 * 86_400), "1d"),
    ],
)
def test_the_width_suits_the_period(spans, width):
    assert Windows(at(*spans)).period().width == width


def test_a_wider_width_where_narrow_windows_are_kept_no_more():
    assert Windows(at(0, 600), kept=("1m", "1h", "1d")).period().width == "1m"
    assert Windows(at(0, 600), kept=("1d",)).period().width == "1d"
    assert Windows(at(0), kept=("1h", "1d")).period("10s") is None


def test_last_is_before_the_latest_window_that_is_asked_for():
    found = Windows(at(0, 100, 110, 120, 500))
    last_20_s = found.period(last=timedelta(seconds=20), end=NOON + timedelta(seconds=300))
    assert starts_of(last_20_s) == at(110, 120)
    assert starts_of(found.period("1m", last=timedelta(hours=9))) == at(0, 60, 120, 480)


def test_period_is_none_without_windows():
    assert Windows([]).period() is None
    assert Windows(at(0)).period(begin=NOON + timedelta(hours=1)) is None


def test_the_edges_of_long_histories_are_found_without_reading_them():
    found = Windows(at(*range(0, 5 * 86_400, 10)))
    period = found.period()
    assert (period.width, period.begin) == ("1h", NOON)
    assert found.rows_read < 1_000


@pytest.mark.parametrize("width", [*WIDTHS_S, None])
@given(
    seconds=st.lists(st.integers(0, 9_000), min_size=1, max_size=60),
    begin=st.integers(0, 9_000),
    last=st.none() | st.integers(10, 9_000),
)
def test_pieces_hold_every_window_of_the_period_once(width, seconds, begin, last):
    found = Windows(at(*seconds))
    begins = NOON + timedelta(seconds=begin)
    period = found.period(width, begin=begins, last=last and timedelta(seconds=last))
    if period is None:
        assert width is not None or max(seconds) - max(seconds) % 10 < begin
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(periods, "_ROWS_AT_ONCE", 20)
        pieces = list(period.pieces(["window_start"]))
    together = pa.concat_tables(pieces)["window_start"].to_pylist()
    assert (
        together
        == found.read(period.width, period.begin, period.end, [])["window_start"].to_pylist()
    )
    assert together == sorted(together)
    assert together


def test_pieces_are_bounded(monkeypatch):
    monkeypatch.setattr(periods, "_ROWS_AT_ONCE", 100)
    found = Windows(at(*range(0, 3600, 10)), clients=20)
    period = found.period("10s")
    found.largest = 0
    assert sum(piece.num_rows for piece in period.pieces(["window_start"])) == 7_200
    assert found.largest <= 100


def test_impossible_windows_are_counted_within_what_is_asked_for():
    now = NOON + timedelta(minutes=5)
    found = Windows(
        [datetime(1971, 1, 1, tzinfo=UTC), NOON, now + AHEAD, datetime(2099, 1, 1, tzinfo=UTC)]
    )
    for since, until, count in (
        (None, None, 3),
        (NOON, None, 2),
        (None, NOON, 1),
        (NOON, NOON + timedelta(hours=1), 1),
    ):
        assert impossible_windows(found.read, found.days, since, until, now) == count
    assert pc.max(found.read("10s", None, None, [])["window_start"]).as_py().year == 2099
