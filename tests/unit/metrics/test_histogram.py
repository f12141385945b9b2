"""Buckets double, and quantiles lie in the bucket of the true one."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.metrics.histogram import BUCKETS, Histogram, bound_us, bucket_of, quantile_us


@given(st.integers(0, 1 << 40))
def test_a_duration_falls_between_the_bounds_of_its_bucket(duration_us):
    bucket = bucket_of(duration_us)
    bound = bound_us(bucket)
    assert bound is None or duration_us < bound
    assert bucket == 0 or duration_us >= bound_us(bucket - 1)


@given(st.lists(st.integers(0, 400_000), min_size=1), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_right_within_its_bucket(durations_us, fraction):
    counts = [0] * BUCKETS
    for duration_us in durations_us:
        counts[bucket_of(duration_us)] += 1
    histogram = Histogram(sum(durations_us), tuple(counts))
    assert histogram.count == len(durations_us)
    assert histogram.mean_us == sum(durations_us) / len(durations_us)
    estimate = histogram.quantile_us(fraction)
    rank = max(1, -(-len(durations_us) * fraction // 1))
    true = sorted(durations_us)[int(rank) - 1]
    bucket = bucket_of(true)
    assert estimate <= (bound_us(bucket) or estimate)
    assert estimate >= (0 if bucket == 0 else bound_us(bucket - 1))


def test_quantile_is_zero_without_observations():
    assert quantile_us([0] * BUCKETS, 0.5) == 0
    assert Histogram().mean_us == 0


def test_since_subtracts_an_earlier_reading():
    before = Histogram(5, (1, 2, *[0] * (BUCKETS - 2)))
    now = Histogram(105, (1, 4, *[0] * (BUCKETS - 2)))
    assert now.since(before) == Histogram(100, (0, 2, *[0] * (BUCKETS - 2)))
    assert now.since(None) == now
    assert before.since(now) == before, "the broker has begun again"
