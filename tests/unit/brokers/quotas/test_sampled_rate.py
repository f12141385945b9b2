"""Window arithmetic to the millisecond, against a plain re-statement of Kafka's rules (QTA5)."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.brokers.quotas.sampled_rate import SampledRate, WindowOptions

ELEVEN = WindowOptions(11, 1_000)


def test_at_first_ten_whole_windows_are_assumed_to_have_passed():
    rate = SampledRate(ELEVEN, 0)
    rate.record(10_000, 0)
    assert rate.measured_ms(0) == 10_000
    assert rate.rate(0) == 1_000.0
    assert rate.measured_ms(999) == 10_999
    assert rate.measured_ms(1_000) == 10_000  # one window is whole now, nine are assumed
    assert rate.measured_ms(10_500) == 10_500


def test_a_sample_counts_until_its_last_value_is_eleven_windows_old():
    rate = SampledRate(ELEVEN, 0)
    rate.record(5_000, 0)
    rate.record(5_000, 900)
    assert rate.rate(11_899) == pytest.approx(10_000 / 11.899)
    assert rate.rate(11_900) == 0.0


def test_the_window_begins_with_the_oldest_sample_that_counts():
    rate = SampledRate(ELEVEN, 0)
    for second in range(13):
        rate.record(100, second * 1_000)
    # At 12 s the values of 0 s and 1 s are obsolete: eleven samples since 2 s.
    assert rate.measured_ms(12_000) == 10_000
    assert rate.total == 1_100
    assert rate.rate(12_500) == 1_100 / 10.5


def test_the_delay_is_the_excess_over_the_limit_times_the_window():
    rate = SampledRate(ELEVEN, 0)
    rate.record(12_000, 0)
    # (1200 - 1000) / 1000 x 10000 ms
    assert rate.delay_ms(1_000.0, 0) == 2_000
    # (12000 / 10.25 - 1000) / 1000 x 10250 ms
    assert rate.delay_ms(1_000.0, 250) == 1_750
    assert rate.delay_ms(1_200.0, 0) == 0
    assert rate.delay_ms(1_199.94, 0) == 1  # half a millisecond is rounded up
    assert rate.delay_ms(1_199.95, 0) == 0


def test_after_exactly_the_delay_the_rate_is_at_the_limit():
    rate = SampledRate(ELEVEN, 0)
    for second in range(11):
        rate.record(1_100, second * 1_000)
    delay_ms = rate.delay_ms(1_000.0, 10_000)
    assert delay_ms == 2_100
    # What began the window is obsolete by then, so less is left than the limit.
    assert rate.rate(10_000 + delay_ms) < 1_000.0


def test_what_is_taken_back_is_gone():
    rate = SampledRate(ELEVEN, 0)
    rate.record(700, 10)
    rate.record(300, 20)
    rate.record(-300, 20)
    assert rate.total == 700


def test_one_window_of_one_sample_never_divides_by_zero():
    rate = SampledRate(WindowOptions(1, 1_000), 5)
    rate.record(3, 5)
    assert rate.measured_ms(5) == 1
    assert rate.rate(5) == 3_000.0


class PlainRate:
    """Every sample is looked at on every call, as the rules are written down."""

    def __init__(self, options: WindowOptions, now_ms: int) -> None:
        self.options = options
        self.samples = [[now_ms, now_ms, 0.0]]
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        sample = self.samples[self.current]
        if now_ms - sample[0] >= self.options.window_ms:
            self.current = (self.current + 1) % (self.options.window_count + 1)
            if self.current == len(self.samples):
                self.samples.append([now_ms, now_ms, 0.0])
            sample = self.samples[self.current]
            sample[:] = [now_ms, now_ms, 0.0]
        sample[1] = now_ms
        sample[2] += value

    def rate(self, now_ms: int) -> float:
        whole_ms = self.options.window_count * self.options.window_ms
        for sample in self.samples:
            if now_ms - sample[1] >= whole_ms:
                sample[:] = [now_ms, now_ms, 0.0]
        elapsed_ms = now_ms - min(sample[0] for sample in self.samples)
        full = elapsed_ms // self.options.window_ms
        elapsed_ms += max(0, self.options.window_count - 1 - full) * self.options.window_ms
        return sum(sample[2] for sample in self.samples) * 1_000 / max(1, elapsed_ms)


@given(
    st.builds(WindowOptions, st.integers(1, 13), st.sampled_from([100, 1_000])),
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 5_000), st.booleans()), max_size=120),
)
def test_it_is_the_same_as_the_plain_rules(options, steps):
    fast, plain = SampledRate(options, 0), PlainRate(options, 0)
    now_ms = 0
    for wait_ms, value, is_measured in steps:
        now_ms += wait_ms
        fast.record(value, now_ms)
        plain.record(value, now_ms)
        if is_measured:
            assert math.isclose(fast.rate(now_ms), plain.rate(now_ms), abs_tol=1e-9)
    assert len(fast._samples) <= options.window_count + 1


@pytest.mark.parametrize("limit", [1_000.0, 1_048_576.0])
@pytest.mark.parametrize("request_seconds", [0.01, 0.1, 0.5, 1.0])
def test_who_waits_as_told_gets_the_limit_in_the_long_run(limit, request_seconds):
    rate, now_ms, sent = SampledRate(ELEVEN, 0), 0, 0.0
    while now_ms < 600_000:
        rate.record(limit * request_seconds, now_ms)
        sent += limit * request_seconds
        now_ms += max(1, rate.delay_ms(limit, now_ms))
    assert sent / now_ms * 1_000 == pytest.approx(limit, rel=0.04)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(0.001, 1.0), min_size=5, max_size=50),
    st.sampled_from([500.0, 50_000.0, 12_345_678.9]),
    st.integers(0, 50),
)
def test_no_pattern_of_obedient_requests_gets_more_than_the_limit(seconds, limit, pause_ms):
    """Requests of up to a second's worth; one of more than ten seconds' worth gets more (Kafka)."""
    rate, now_ms, sent, step = SampledRate(ELEVEN, 0), 0, 0.0, 0
    while now_ms < 240_000:
        size = limit * seconds[step % len(seconds)]
        step += 1
        rate.record(size, now_ms)
        sent += size
        now_ms += pause_ms + max(1, rate.delay_ms(limit, now_ms))
    # Ten seconds' worth may be sent at once at the beginning.
    assert sent <= limit * (now_ms / 1_000 + 11) * 1.03
