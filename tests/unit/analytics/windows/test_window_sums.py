"""Sums of windows equal those of plain Python, in any order and any parts, up to every bound."""

import json
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.windows.kinds import (  # noqa: E402
    KIND_OF,
    LAG,
    QUOTA,
    SUMS_SCHEMA,
    WINDOW_KINDS,
    WINDOW_SCHEMA,
    WindowKind,
)
from cluster.analytics.windows.record_schema import Values, checked  # noqa: E402
from cluster.analytics.windows.widths import NARROWEST, WIDTHS_S  # noqa: E402
from cluster.analytics.windows.window_sums import (  # noqa: E402
    added_up,
    coarser,
    first_sums,
    joined,
    sums_of,
    wide,
    windows_of,
)
from tests.support.examples import examples  # noqa: E402
from tests.support.metric_records import (  # noqa: E402
    START_MS,
    Record,
    as_written,
    lag_record,
    quota_record,
)
from tests.support.reference_windows import assert_windows, every_kind  # noqa: E402

NOW_MS = START_MS + 10**9


def sums_of_records(records: Sequence[Record]) -> dict[str, Any]:
    """A row of sums for each record, by kind."""
    found = checked(
        Values(
            [as_written(each) for each in records],
            [str(each["broker"]).encode() for each in records],
            [each["ts"] for each in records],
        ),
        NOW_MS,
    )
    assert found.rejected == []
    return {kind: first_sums(table, KIND_OF[kind]) for kind, table in found.tables.items()}


def windows(records: Sequence[Record], kind: WindowKind, width: str) -> Any:
    """The windows of one kind and width."""
    narrow = joined([sums_of_records(records)])[kind.name]
    sums = narrow if width == NARROWEST else coarser(narrow, kind, width)
    return windows_of(sums, kind, width)


@pytest.mark.no_cover
@pytest.mark.parametrize("width", WIDTHS_S)
@pytest.mark.parametrize("kind", WINDOW_KINDS, ids=lambda kind: kind.name)
def test_windows_are_those_of_plain_python(kind: WindowKind, width: str) -> None:
    records = every_kind(7, seconds=150)
    assert_windows(windows(records, kind, width), records, kind, WIDTHS_S[width])


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", WINDOW_KINDS, ids=lambda kind: kind.name)
def test_the_order_and_the_parts_do_not_matter(kind: WindowKind) -> None:
    records = every_kind(11, seconds=60)
    whole = windows(records, kind, "1m")
    dice = Random(3)
    dice.shuffle(records)
    parts = []
    while records:
        size = dice.randrange(1, 500)
        parts.append(joined([sums_of_records(records[:size])]))
        records = records[size:]
    dice.shuffle(parts)
    half = len(parts) // 2
    stored = joined([joined(parts[:half]), joined(parts[half:])])[kind.name]
    assert windows_of(coarser(stored, kind, "1m"), kind, "1m").equals(whole)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", WINDOW_KINDS, ids=lambda kind: kind.name)
def test_wider_windows_follow_from_narrower_ones_that_are_stored(kind: WindowKind) -> None:
    records = every_kind(5, seconds=200)
    minutes = windows(records, kind, "1m")
    hours = windows_of(coarser(sums_of(minutes, kind), kind, "1h"), kind, "1h")
    assert hours.equals(windows(records, kind, "1h"))


def test_a_client_that_reads_more_than_nine_gigabytes_in_a_minute() -> None:
    records = [quota_record(usage=9_441_294_578.0, rate=9.4e9, quota="fetch")]
    (row,) = windows(records, QUOTA, "10s").to_pylist()
    assert row["usage_sum"] == 9_441_294_578.0


def test_ten_records_of_the_highest_usage() -> None:
    (row,) = windows([quota_record(usage=1e12)] * 10, QUOTA, "10s").to_pylist()
    assert row["usage_exact"] == Decimal(10**13)
    assert row["usage_sum"] == 1e13


@pytest.mark.parametrize("width", WIDTHS_S)
def test_a_day_of_the_highest_values(width: str) -> None:
    most = {"usage": 1e12, "rate": 1e12, "throttle_ms": 1e12, "muted_ms": 1e12}
    counts = {"requests": 10**9, "throttled": 10**9}
    quotas = [quota_record(ts=START_MS + 1000 + ms, **most, **counts) for ms in range(60)]
    lags = [
        lag_record(ts=START_MS + 5000 + ms, lag=10**15, log_end=10**15, committed=10**15)
        for ms in range(60)
    ]
    for kind, records in ((QUOTA, quotas), (LAG, lags)):
        once = joined([sums_of_records(records)])[kind.name]
        found = once
        for _ in range(3):  # 60 records 24 times 24 times 24 times
            found = added_up(pa.concat_tables([found] * 24), kind)
        (row,) = windows_of(coarser(found, kind, width), kind, width).to_pylist()
        times = 60 * 24**3
        assert row["records"] == times
        if kind is QUOTA:
            assert row["usage_exact"] == Decimal(10**12) * times
            assert row["muted_ms_exact"] == Decimal(10**12) * times
            assert row["requests"] == 10**9 * times
        else:
            assert row["lag_exact"] == Decimal(10**15) * times
            assert row["lag_avg"] == pytest.approx(1e15)


amounts = st.floats(0, 1e12) | st.sampled_from(
    [0.0, -0.0, 1e12, 0.000001, 0.0000004, 2.0**53 / 1e6]
)
counts = st.integers(0, 10**9)
quotas = st.builds(
    lambda **fields: quota_record(**fields),
    ts=st.integers(START_MS + 1000, START_MS + 30_000),
    usage=amounts,
    rate=amounts,
    throttle_ms=amounts,
    muted_ms=amounts,
    limit=st.none() | st.sampled_from([0.0, 1.0, 1e15]),
    requests=counts,
    throttled=counts,
    client_id=st.sampled_from(["a", "b", ""]),
    user=st.none() | st.just("u"),
)


@examples(30)
@given(st.lists(quotas, min_size=1, max_size=40))
def test_sums_of_any_accepted_quota_records(records: list[Record]) -> None:
    for width in WIDTHS_S:
        assert_windows(windows(records, QUOTA, width), records, QUOTA, WIDTHS_S[width])


def test_last_lag_is_the_greatest_when_records_have_the_same_time() -> None:
    records = [lag_record(lag=lag) for lag in (3, 9, 4)]
    for order in (records, records[::-1]):
        (row,) = windows(order, LAG, "10s").to_pylist()
        assert row["lag_last"] == 9


def test_files_have_the_columns_of_all_kinds() -> None:
    sums = joined([sums_of_records(every_kind(1, seconds=12))])
    for name, table in sums.items():
        kind = KIND_OF[name]
        delta = wide(table, SUMS_SCHEMA, kind=name)
        assert delta.schema == SUMS_SCHEMA
        assert delta.select(kind.sum_names).equals(table)
        assert set(delta["kind"].to_pylist()) == {name}
        file = wide(windows_of(table, kind, NARROWEST), WINDOW_SCHEMA)
        assert file.schema == WINDOW_SCHEMA
        assert added_up(sums_of(file, kind), kind).num_rows == table.num_rows


def test_the_reference_is_made_of_json_as_brokers_write_it() -> None:
    record = every_kind(1, seconds=1)[0]
    assert json.loads(as_written(record)) == record
