"""Sums of metric records, however they are cut and added up, give the windows of plain Python."""

import json
from collections.abc import Iterable
from random import Random

import pytest

from tests.support.metric_records import (
    START_MS,
    Record,
    generated_group_records,
    generated_records,
    lag_record,
    lag_windows_of,
    quota_record,
    windows_of,
)

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow as pa

from cluster.analytics.metric_rows import rows_of
from cluster.analytics.window_files import (
    GROUP_WINDOWS,
    LAG_WINDOWS,
    QUOTA_WINDOWS,
    WIDTHS_S,
    WINDOW_KINDS,
    WindowKind,
)
from cluster.analytics.window_sums import (
    SUMS_SCHEMA,
    added_up,
    fuller,
    of_kind,
    packed,
    sums_of_rows,
    sums_of_windows,
    unpacked,
    windows_of_sums,
)


def sums(records: Iterable[Record]) -> pa.Table:
    values = [json.dumps(record).encode() for record in records]
    return sums_of_rows(rows_of(values))


def expected(records: Iterable[Record], width: str, kind: WindowKind) -> pa.Table:
    if kind is QUOTA_WINDOWS:
        rows = windows_of(records, WIDTHS_S[width])
    else:
        rows = lag_windows_of(records, WIDTHS_S[width], kind.name)
    return pa.Table.from_pylist(rows, schema=kind.schema)


def shuffled_parts(records: list[Record], seed: int) -> list[list[Record]]:
    dice = Random(seed)
    mixed = dice.sample(records, len(records))
    parts: list[list[Record]] = [[], [], []]
    for record in mixed:
        dice.choice(parts).append(record)
    return parts


@pytest.mark.parametrize("kind", WINDOW_KINDS, ids=lambda kind: kind.name)
def test_windows_of_every_width_equal_the_reference_in_whatever_parts_records_come(kind):
    records = [
        *generated_records(11, seconds=150),
        *generated_group_records(3, seconds=4_000, groups=1),
    ]
    parts = [of_kind(sums(part), kind) for part in shuffled_parts(records, 5)]
    together = added_up(pa.concat_tables(parts), kind)
    for width in WIDTHS_S:
        found = windows_of_sums(together, kind)[width]
        assert found.select(kind.schema.names) == expected(records, width, kind)


@pytest.mark.parametrize("kind", WINDOW_KINDS, ids=lambda kind: kind.name)
def test_what_is_stored_and_added_to_is_what_all_records_together_give(kind):
    records = [*generated_records(12, seconds=60), *generated_group_records(4, seconds=60)]
    stored = sums_of_windows(windows_of_sums(of_kind(sums([]), kind), kind)["10s"], kind)
    for part in shuffled_parts(records, 6):
        both = pa.concat_tables([stored, of_kind(sums(part), kind)])
        stored = sums_of_windows(windows_of_sums(both, kind)["10s"], kind)
    at_once = of_kind(sums(records), kind)
    for width in WIDTHS_S:
        assert windows_of_sums(stored, kind)[width] == windows_of_sums(at_once, kind)[width]


def test_a_block_becomes_few_rows_and_counts():
    found = sums([*generated_records(1, seconds=10), {"kind": "bad"}, {"v": 1, "kind": "new"}])
    assert found.schema == SUMS_SCHEMA
    counts: dict[str, int] = {}
    for row in found.to_pylist():
        counts[row["kind"]] = counts.get(row["kind"], 0) + row["records"]
    assert counts["other"] == 31
    assert counts["rejected"] == 1
    assert found.num_rows < counts["quota"] / 2


def test_sums_of_blocks_pass_through_bytes():
    """Also those of a block without windows, and of no block at all."""
    blocks = [sums(generated_records(1, seconds=3)), sums([{"kind": "bad"}])]
    column = pa.chunked_array([[packed(each)] for each in blocks], pa.binary())
    assert unpacked(column) == pa.concat_tables(blocks)
    assert unpacked(pa.chunked_array([], pa.binary())) == SUMS_SCHEMA.empty_table()


def test_an_interval_belongs_where_it_began():
    records = [quota_record(ts=START_MS + shift) for shift in (-1, 0, 999, 1000, 1001)]
    found = windows_of_sums(of_kind(sums(records), QUOTA_WINDOWS), QUOTA_WINDOWS)["10s"]
    assert found["records"].to_pylist() == [3, 2]


def test_the_fuller_window_is_kept_and_of_equal_ones_the_new():
    records = list(generated_records(4, seconds=40))
    left = [record for record in records if record["ts"] > START_MS + 14_500]
    more = list(generated_records(5, seconds=20, start_ms=START_MS + 40_000))
    stored, computed = (of_kind(sums(each), QUOTA_WINDOWS) for each in (records, [*left, *more]))
    merged = fuller(
        added_up(stored, QUOTA_WINDOWS), added_up(computed, QUOTA_WINDOWS), QUOTA_WINDOWS
    )
    found = windows_of_sums(merged, QUOTA_WINDOWS)["10s"].select(QUOTA_WINDOWS.schema.names)
    assert found == expected([*records, *more], "10s", QUOTA_WINDOWS)

    old, new = (of_kind(sums([quota_record(usage=each)]), QUOTA_WINDOWS) for each in (1.0, 2.0))
    merged = fuller(old, new, QUOTA_WINDOWS)
    assert windows_of_sums(merged, QUOTA_WINDOWS)["10s"]["usage_sum"].to_pylist() == [2.0]


def test_of_equally_late_lags_the_higher_is_the_last():
    for lags in ([3, 8], [8, 3]):
        found = of_kind(sums(lag_record(lag=lag) for lag in lags), LAG_WINDOWS)
        assert windows_of_sums(found, LAG_WINDOWS)["10s"]["lag_last"].to_pylist() == [8]


def test_a_percentile_of_which_some_rates_are_unknown_is_null():
    """Files of early versions did not keep the rates."""
    found = windows_of_sums(of_kind(sums([quota_record()]), QUOTA_WINDOWS), QUOTA_WINDOWS)["10s"]
    at = found.schema.get_field_index("rates")
    early = found.set_column(at, "rates", pa.nulls(1, found.schema.field(at).type))
    stored = sums_of_windows(early, QUOTA_WINDOWS)
    both = pa.concat_tables([stored, of_kind(sums([quota_record()]), QUOTA_WINDOWS)])
    (row,) = windows_of_sums(both, QUOTA_WINDOWS)["1h"].to_pylist()
    assert (row["rate_p95"], row["rate_max"], row["records"]) == (None, 900.0, 2)


def test_a_limit_of_zero_gives_no_utilization():
    found = of_kind(sums([quota_record(limit=0.0)]), QUOTA_WINDOWS)
    assert windows_of_sums(found, QUOTA_WINDOWS)["1m"]["utilization"].to_pylist() == [None]


def test_groups_without_any_time_in_a_state_have_zero():
    records = list(generated_group_records(1, seconds=10, groups=1))
    found = of_kind(sums(records), GROUP_WINDOWS)
    assert windows_of_sums(found, GROUP_WINDOWS)["10s"]["empty_ms"].to_pylist() == [0]
