"""The token bucket: Kafka's numbers, and its invariant under arbitrary use."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import MonotonicMs
from cluster.quotas.sampled_rate import SampledRate, WindowOptions
from cluster.quotas.token_bucket import TokenBucket
from tests.support.examples import examples


def test_burst_is_free_and_more_must_be_waited_for():
    """Kafka's `TokenBucketTest`: ten seconds' worth at 5 a second."""
    bucket = TokenBucket(10_000)
    assert bucket.delay_ms(5.0, 50, MonotonicMs(0)) == 0
    assert bucket.delay_ms(5.0, 60, MonotonicMs(0)) == 12_000
    assert bucket.delay_ms(5.0, 0, MonotonicMs(2_000)) == 10_000
    assert bucket.delay_ms(5.0, 0, MonotonicMs(12_000)) == 0
    assert bucket.delay_ms(5.0, 1, MonotonicMs(12_000)) == 200


def test_unused_tokens_are_kept_for_a_burst_and_no_longer():
    bucket = TokenBucket(10_000)
    assert bucket.delay_ms(5.0, 0, MonotonicMs(1_000_000)) == 0
    assert bucket.delay_ms(5.0, 51, MonotonicMs(1_000_000)) == 200


def test_negative_usage_reduces_the_debt():
    bucket = TokenBucket(1_000)
    assert bucket.delay_ms(10.0, 30, MonotonicMs(0)) == 2_000
    assert bucket.delay_ms(10.0, -30, MonotonicMs(0)) == 0
    assert bucket.delay_ms(10.0, -30, MonotonicMs(0)) == 0
    assert bucket.delay_ms(10.0, 11, MonotonicMs(0)) == 100


def test_another_limit_begins_with_a_full_bucket():
    bucket = TokenBucket(1_000)
    assert bucket.delay_ms(10.0, 1_000, MonotonicMs(0)) == 99_000
    assert bucket.delay_ms(20.0, 0, MonotonicMs(0)) == 0


def test_debt_outlives_the_windows():
    """Without the bucket, a sample worth 30 s was forgotten after 11."""
    rate = SampledRate(WindowOptions(), MonotonicMs(0))
    for now_ms, expected_ms in ((0, 29_000), (12_000, 47_000)):
        rate.record(30_000, MonotonicMs(now_ms))
        rate.unsettled += 30_000
        # 60 s worth, of which 12 s have passed, and the first second was free.
        assert rate.delay_ms(1_000.0, MonotonicMs(now_ms)) == expected_ms


def test_debt_beyond_the_maximum_is_forgiven():
    bucket = TokenBucket(0, 2_000)
    assert bucket.delay_ms(10.0, 30, MonotonicMs(0)) == 2_000
    assert bucket.delay_ms(10.0, 5, MonotonicMs(1_000)) == 1_500


requests = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0.01, 40), st.integers(0, 5_000)), max_size=60
)


@given(requests)
@examples(100)
def test_no_pattern_of_large_requests_gets_more_than_the_limit_in_the_long_run(pattern):
    """Connections that share a budget; each waits for its delay, then idles for any time."""
    limit = 1_000.0
    rate = SampledRate(WindowOptions(), MonotonicMs(0))
    free_ms = [0, 0, 0, 0]
    used = 0.0
    largest = [0.0, 0.0, 0.0, 0.0]
    now_ms = 0
    for connection, seconds_worth, idle_ms in pattern:
        now_ms = max(now_ms, free_ms[connection])
        # Before this request, the admitted usage is within the limit and eleven seconds, except for
        # each connection's last request, whose delay it is waiting for.
        value = seconds_worth * limit
        used += value
        largest[connection] = max(largest[connection], value)
        rate.record(value, MonotonicMs(now_ms))
        rate.unsettled += value
        delay_ms = rate.delay_ms(limit, MonotonicMs(now_ms))
        assert used <= limit * (now_ms + 11_000 + 1) / 1_000 + sum(largest)
        free_ms[connection] = now_ms + delay_ms + idle_ms
