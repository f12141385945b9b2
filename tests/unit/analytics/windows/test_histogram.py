"""Histograms in columns: counts, sums, and the error of quantiles."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.windows.histogram import (  # noqa: E402
    RATE_ERROR,
    added_up,
    duration_quantile_us,
    of_counts,
    rate_codes,
    rate_quantile,
    rates_of,
    singles,
)
from cluster.metrics.histogram import BUCKETS, quantile_us  # noqa: E402

rates = st.floats(0, 1e12, allow_subnormal=False)
buckets = st.lists(st.integers(0, 10**9), max_size=BUCKETS)


def column(array: object) -> object:
    """An array as a column of a table."""
    return pa.chunked_array([array])


@settings(deadline=None)
@given(st.lists(rates, min_size=1))
def test_a_rate_is_known_within_the_stated_error(found: list[float]) -> None:
    codes = rate_codes(column(pa.array(found, pa.float64())))
    for rate, middle in zip(found, rates_of(codes).to_pylist(), strict=True):
        assert middle == pytest.approx(rate, rel=RATE_ERROR, abs=1e-37)


@settings(deadline=None)
@given(
    st.lists(st.lists(rates, max_size=30), min_size=1, max_size=8), st.sampled_from([50, 95, 99])
)
def test_percentiles_of_rates_are_nearest_ranks(groups: list[list[float]], percent: int) -> None:
    flat = [rate for group in groups for rate in group]
    ends = [0]
    for group in groups:
        ends.append(ends[-1] + len(group))
    rows = pa.array([list(range(a, b)) for a, b in itertools.pairwise(ends)])
    each = singles(rate_codes(column(pa.array(flat, pa.float64()))))
    found = rate_quantile(column(added_up(column(each), rows.cast(pa.list_(pa.int64())))), percent)
    for group, quantile in zip(groups, found.to_pylist(), strict=True):
        if not group:
            assert quantile is None
        else:
            rank = sorted(group)[-(-percent * len(group) // 100) - 1]
            assert quantile == pytest.approx(rank, rel=1.01 * RATE_ERROR, abs=1e-37)


@settings(deadline=None)
@given(st.lists(st.none() | buckets, min_size=1, max_size=8))
def test_counts_of_durations_add_up(lists: list[list[int] | None]) -> None:
    each = of_counts(column(pa.array(lists, pa.list_(pa.int64()))))
    expected = [Counter(dict(enumerate(found or []))) for found in lists]
    assert [Counter(dict(found)) for found in each.to_pylist()] == [+one for one in expected]
    rows = pa.array([list(range(len(lists))), []], pa.list_(pa.int64()))
    total, nothing = added_up(column(each), rows).to_pylist()
    whole: Counter[int] = Counter()
    for one in expected:
        whole.update(one)
    assert dict(total) == dict(+whole)
    assert [bucket for bucket, _ in total] == sorted(+whole)
    assert nothing == []


@settings(deadline=None)
@given(st.lists(buckets, min_size=1, max_size=8), st.sampled_from([50, 95, 99]))
def test_percentiles_of_durations_are_those_of_the_live_metrics(
    lists: list[list[int]], percent: int
) -> None:
    each = column(of_counts(column(pa.array(lists, pa.list_(pa.int64())))))
    for counts, found in zip(lists, duration_quantile_us(each, percent).to_pylist(), strict=True):
        padded = [*counts, *[0] * (BUCKETS - len(counts))]
        expected = quantile_us(padded, percent / 100) if any(counts) else None
        assert found == (None if expected is None else pytest.approx(expected, rel=1e-9))
