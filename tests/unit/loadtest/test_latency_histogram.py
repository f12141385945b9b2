import json
import math

from hypothesis import given
from hypothesis import strategies as st

from cluster.loadtest.latency_histogram import LatencyHistogram, bucket_of, middle_of

LATENCIES = st.integers(min_value=0, max_value=10**9)
TOLERANCE = 0.01


def exact_percentile(values: list[int], percent: float) -> int:
    """The nearest rank of the sorted values."""
    return sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1]


@given(st.lists(LATENCIES, min_size=1), st.sampled_from([0, 1, 50, 95, 99, 99.9, 100]))
def test_percentiles_are_within_one_percent_of_the_exact_ones(values, percent):
    exact = exact_percentile(values, percent)
    assert math.isclose(
        LatencyHistogram(values).percentile_us(percent), exact, rel_tol=TOLERANCE, abs_tol=0
    )


@given(st.lists(st.lists(LATENCIES)))
def test_merging_is_the_same_as_counting_together(parts):
    merged = LatencyHistogram()
    for part in parts:
        merged.add(LatencyHistogram(part))
    together = LatencyHistogram([value for part in parts for value in part])
    assert merged.to_json() == together.to_json()
    assert merged.count == together.count


@given(st.lists(LATENCIES))
def test_another_process_reads_the_same_histogram(values):
    original = LatencyHistogram(values)
    copy = LatencyHistogram.from_json(json.loads(json.dumps(original.to_json())))
    assert copy.to_json() == original.to_json()
    assert copy.count == len(values)


@given(st.lists(LATENCIES, min_size=1))
def test_average_and_maximum_are_exact(values):
    histogram = LatencyHistogram(values)
    assert histogram.average_us == sum(values) / len(values)
    assert histogram.max_us == max(values)


@given(LATENCIES, LATENCIES)
def test_buckets_are_in_the_order_of_the_values(one, other):
    assert (bucket_of(one) <= bucket_of(other)) or one > other
    assert abs(middle_of(bucket_of(one)) - one) <= one * TOLERANCE


def test_every_bucket_has_a_value_of_its_own():
    middles = [int(middle_of(bucket)) for bucket in range(3_000)]
    assert [bucket_of(middle) for middle in middles] == list(range(3_000))


def test_empty_histogram_has_zeros():
    empty = LatencyHistogram()
    assert (empty.percentile_us(99), empty.average_us, empty.max_us) == (0, 0, 0)


def test_negative_latency_counts_as_zero():
    assert LatencyHistogram([-3]).percentile_us(50) == 0


def test_percentile_rank_is_exact():
    latencies = LatencyHistogram([1] * 40_959 + [2] * 41)
    assert latencies.percentile_us(99.9) == 1
