"""Capacity planning reads only the windows that it uses."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `windows`")

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.capacity.lags import lags
from cluster.analytics.capacity.reading import read_history
from cluster.analytics.capacity.report import report
from cluster.analytics.windows.kinds import BROKER, LAG, LATENCY, WINDOW_KINDS, WindowKind
from cluster.analytics.windows.window_sums import coarser, windows_of
from tests.support.capacity_history import THURSDAY, Row, Truth, history, sums

DAYS = 9
TRUTH = Truth(days=DAYS)


class Windows:
    """Windows of some kinds; records which of them are read."""

    def __init__(self, rows: Mapping[WindowKind, Sequence[Row]]) -> None:
        self._sums = {kind: sums(kind, rows.get(kind, ())) for kind in WINDOW_KINDS}
        self.rows_read: dict[tuple[str, str], int] = {}

    def read(
        self,
        kind: WindowKind,
        width: str,
        since: datetime | None = None,
        until: datetime | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """The signature of `windows.reading.read_windows`."""
        table = windows_of(coarser(self._sums[kind], kind, width), kind, width)
        starts = pc.field("window_start")
        chosen = starts.is_valid() if where is None else where
        if since is not None:
            chosen &= starts >= pa.scalar(since, table["window_start"].type)
        if until is not None:
            chosen &= starts < pa.scalar(until, table["window_start"].type)
        found = table.filter(chosen).select(list(columns) if columns else kind.names)
        before = self.rows_read.get((kind.name, width), 0)
        self.rows_read[kind.name, width] = before + found.num_rows
        return found


def whole() -> dict[WindowKind, list[Row]]:
    return {kind: list(rows) for kind, rows in TRUTH.rows().items()}


@pytest.mark.parametrize("last", [None, timedelta(days=7), timedelta(hours=3)])
def test_only_recent_lags_are_read(last: timedelta | None) -> None:
    windows = Windows(whole())
    found = read_history(windows.read, last=last)
    assert windows.rows_read[LAG.name, "1h"] <= 8 * 27
    expected = _lags_of(history(whole())) if last is None else None
    assert _lags_of(found)
    assert expected is None or _lags_of(found) == expected


def test_lags_alone_are_a_history() -> None:
    rows = {LAG: list(TRUTH.lag_rows())}
    found = read_history(Windows(rows).read)
    assert found.span_s == pytest.approx(DAYS * 86_400, abs=3600)
    assert _lags_of(found) == _lags_of(history(rows))


def _lags_of(found: WindowHistory) -> list[object]:
    return list(lags(found).groups)


def test_short_history_has_a_p99_beside_each_rate() -> None:
    short = Truth(days=1 / 24, first_s=THURSDAY + 24 * 60)
    of_produce = next(row for row in short.latency_rows() if row["api"] == "Produce")
    latencies = [{**of_produce, "start_s": time_s} for time_s in short.steps]
    windows = Windows({BROKER: list(short.broker_rows()), LATENCY: latencies})
    series = report(read_history(windows.read)).series
    known = [at for at, rate in enumerate(series.bytes_in_per_s) if rate is not None]
    assert len(known) == len(short.steps)
    assert None not in [series.produce_p99_ms[at] for at in known]
