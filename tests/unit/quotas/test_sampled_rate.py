"""Window arithmetic to the millisecond, compared with a plain implementation of its rules."""

import bisect
import itertools
import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import MonotonicMs
from cluster.quotas.sampled_rate import SampledRate, WindowCredit, WindowOptions
from tests.support.examples import examples

KAFKA = WindowOptions(11, 1_000, WindowCredit.KAFKA)
ELAPSED = WindowOptions(11, 1_000, WindowCredit.ELAPSED)
MIB = 1_048_576


# -- as Kafka does it ------------------------------------------------------------------------------


def test_at_first_ten_whole_windows_are_assumed_to_have_passed():
    rate = SampledRate(KAFKA, MonotonicMs(0))
    rate.record(10_000, MonotonicMs(0))
    assert rate.measured_ms(MonotonicMs(0)) == 10_000
    assert rate.rate(MonotonicMs(0)) == 1_000.0
    assert rate.measured_ms(MonotonicMs(999)) == 10_999
    assert (
        rate.measured_ms(MonotonicMs(1_000)) == 10_000
    )  # one window is whole now, nine are assumed
    assert rate.measured_ms(MonotonicMs(10_500)) == 10_500


def test_a_sample_counts_until_its_last_value_is_eleven_windows_old():
    rate = SampledRate(KAFKA, MonotonicMs(0))
    rate.record(5_000, MonotonicMs(0))
    rate.record(5_000, MonotonicMs(900))
    assert rate.rate(MonotonicMs(11_899)) == pytest.approx(10_000 / 11.899)
    assert rate.rate(MonotonicMs(11_900)) == 0.0


def test_the_window_begins_with_the_oldest_sample_that_counts():
    rate = SampledRate(KAFKA, MonotonicMs(0))
    for second in range(13):
        rate.record(100, MonotonicMs(second * 1_000))
    # At 12 s the values of 0 s and 1 s are obsolete: eleven samples since 2 s.
    assert rate.measured_ms(MonotonicMs(12_000)) == 10_000
    assert rate.total == 1_100
    assert rate.rate(MonotonicMs(12_500)) == 1_100 / 10.5


def test_the_delay_is_the_excess_over_the_limit_times_the_window():
    rate = SampledRate(KAFKA, MonotonicMs(0))
    rate.record(12_000, MonotonicMs(0))
    # (1200 - 1000) / 1000 x 10000 ms
    assert rate.delay_ms(1_000.0, MonotonicMs(0)) == 2_000
    # (12000 / 10.25 - 1000) / 1000 x 10250 ms
    assert rate.delay_ms(1_000.0, MonotonicMs(250)) == 1_750
    assert rate.delay_ms(1_200.0, MonotonicMs(0)) == 0
    assert rate.delay_ms(1_199.94, MonotonicMs(0)) == 1  # half a millisecond is rounded up
    assert rate.delay_ms(1_199.95, MonotonicMs(0)) == 0


def test_after_exactly_the_delay_the_rate_is_at_the_limit():
    rate = SampledRate(KAFKA, MonotonicMs(0))
    for second in range(11):
        rate.record(1_100, MonotonicMs(second * 1_000))
    delay_ms = rate.delay_ms(1_000.0, MonotonicMs(10_000))
    assert delay_ms == 2_100
    # The oldest sample is obsolete by then, so less than the limit is left.
    assert rate.rate(MonotonicMs(10_000 + delay_ms)) < 1_000.0


def test_negative_record_undoes_usage():
    rate = SampledRate(KAFKA, MonotonicMs(0))
    rate.record(700, MonotonicMs(10))
    rate.record(300, MonotonicMs(20))
    rate.record(-300, MonotonicMs(20))
    assert rate.total == 700


def test_rate_never_divides_by_zero_with_one_window():
    rate = SampledRate(WindowOptions(1, 1_000, WindowCredit.KAFKA), MonotonicMs(5))
    rate.record(3, MonotonicMs(5))
    assert rate.measured_ms(MonotonicMs(5)) == 1
    assert rate.rate(MonotonicMs(5)) == 3_000.0


# -- counting what has passed ----------------------------------------------------------------------


def test_elapsed_is_the_default():
    assert WindowOptions() == ELAPSED


def test_measured_time_is_the_elapsed_time_but_at_least_one_window():
    rate = SampledRate(ELAPSED, MonotonicMs(0))
    assert rate.measured_ms(MonotonicMs(40_000)) == 1_000
    rate.record(2_500, MonotonicMs(50_000))
    assert rate.rate(MonotonicMs(50_000)) == 2_500.0
    assert rate.measured_ms(MonotonicMs(50_999)) == 1_000
    assert rate.measured_ms(MonotonicMs(51_001)) == 1_001
    assert rate.measured_ms(MonotonicMs(60_999)) == 10_999
    assert rate.rate(MonotonicMs(60_999)) == pytest.approx(2_500 / 10.999)
    # Obsolete, and then there is no credit left.
    assert (rate.measured_ms(MonotonicMs(61_000)), rate.total) == (1_000, 0.0)
    rate.record(2_500, MonotonicMs(66_543))
    assert rate.delay_ms(1_000.0, MonotonicMs(66_543)) == 1_500
    assert rate.measured_ms(MonotonicMs(68_000)) == 1_457


def test_silence_is_worth_one_window_however_often_the_rate_is_read():
    rate = SampledRate(ELAPSED, MonotonicMs(0))
    for now_ms in range(0, 30_000, 250):
        assert rate.rate(MonotonicMs(now_ms)) == 0.0
    rate.record(1_001, MonotonicMs(30_100))
    assert rate.delay_ms(1_000.0, MonotonicMs(30_100)) == 1


def test_the_delay_is_what_is_missing_to_the_millisecond():
    rate = SampledRate(ELAPSED, MonotonicMs(0))
    rate.record(3_000, MonotonicMs(0))
    assert rate.delay_ms(1_000.0, MonotonicMs(0)) == 2_000  # (3000 - 1000) / 1000 x 1000 ms
    assert rate.delay_ms(1_000.0, MonotonicMs(1_250)) == 1_750  # (2400 - 1000) / 1000 x 1250 ms
    assert rate.delay_ms(1_000.0, MonotonicMs(2_999)) == 1
    assert rate.delay_ms(1_000.0, MonotonicMs(3_000)) == 0
    rate.record(500, MonotonicMs(3_000))
    assert rate.delay_ms(1_000.0, MonotonicMs(3_000)) == 500  # (1166.7 - 1000) / 1000 x 3000 ms


def test_a_request_of_several_seconds_worth_is_counted_and_waits_for_the_rest():
    rate = SampledRate(ELAPSED, MonotonicMs(0))
    rate.record(MIB, MonotonicMs(0))
    assert rate.delay_ms(MIB, MonotonicMs(0)) == 0
    rate.record(5 * MIB, MonotonicMs(0))
    assert rate.delay_ms(MIB, MonotonicMs(0)) == 5_000


def test_a_fetch_that_was_put_off_is_admitted_after_its_delay():
    rate = SampledRate(ELAPSED, MonotonicMs(0))
    rate.record(5_000, MonotonicMs(7))
    assert rate.delay_ms(1_000.0, MonotonicMs(7)) == 4_000
    rate.record(-5_000, MonotonicMs(7))
    # The first second counts whole from its first millisecond, so there is one more delay.
    rate.record(5_000, MonotonicMs(4_007))
    assert rate.delay_ms(1_000.0, MonotonicMs(4_007)) == 1_000
    rate.record(-5_000, MonotonicMs(4_007))
    rate.record(5_000, MonotonicMs(5_007))
    assert rate.delay_ms(1_000.0, MonotonicMs(5_007)) == 0


def ten_second_shares(sent: list[tuple[int, float]], limit: float, from_ms: int) -> list[float]:
    """The usage in any 10 s that begin or end with a request, as shares of the limit."""
    times = [at_ms for at_ms, _ in sent]
    sums = [0.0, *itertools.accumulate(value for _, value in sent)]
    last_ms = times[-1] - 10_000
    starts = {
        start
        for at_ms in times
        for start in (at_ms, at_ms + 1, at_ms - 9_999, at_ms - 10_000)
        if from_ms <= start <= last_ms
    }
    return [
        (sums[bisect.bisect_left(times, start + 10_000)] - sums[bisect.bisect_left(times, start)])
        / (10 * limit)
        for start in starts
    ]


@examples(40)
@given(
    st.integers(0, 3_600_000),
    st.lists(st.integers(0, 10), min_size=1, max_size=20),
    st.sampled_from([MIB, 1.5 * MIB, 4_321_098.7]),
    st.booleans(),
)
def test_any_ten_seconds_of_a_client_that_wants_more_are_within_five_percent(
    silent_ms, pauses_ms, limit, is_fetch
):
    """Requests of 64 KiB; a fetch above the limit is postponed, a produce request counts."""
    rate, now_ms, size = SampledRate(ELAPSED, MonotonicMs(0)), silent_ms, 65_536
    sent: list[tuple[int, float]] = []
    for pause_ms in itertools.cycle(pauses_ms):
        rate.record(size, now_ms)
        delay_ms = rate.delay_ms(limit, now_ms)
        if is_fetch and delay_ms:
            rate.record(-size, now_ms)
        else:
            sent.append((now_ms, size))
        now_ms += max(1, delay_ms + pause_ms)
        if now_ms > silent_ms + 40_000:
            break
    # A second's worth at once, and then never more than the limit.
    assert max(ten_second_shares(sent, limit, 0)) < 1.05
    shares = ten_second_shares(sent, limit, silent_ms + 1_000)
    assert min(shares) > 0.95


# -- both ------------------------------------------------------------------------------------------


class PlainKafkaRate:
    """Checks every sample in every call, as Kafka's rules are written."""

    def __init__(self, options: WindowOptions, now_ms: MonotonicMs) -> None:
        self.options = options
        self.samples = [[now_ms, now_ms, 0.0]]
        self.current = 0

    def record(self, value: float, now_ms: MonotonicMs) -> None:
        sample = self.samples[self.current]
        if now_ms - sample[0] >= self.options.window_ms:
            self.current = (self.current + 1) % (self.options.window_count + 1)
            if self.current == len(self.samples):
                self.samples.append([now_ms, now_ms, 0.0])
            sample = self.samples[self.current]
            sample[:] = [now_ms, now_ms, 0.0]
        sample[1] = now_ms
        sample[2] += value

    def rate(self, now_ms: MonotonicMs) -> float:
        whole_ms = self.options.window_count * self.options.window_ms
        for sample in self.samples:
            if now_ms - sample[1] >= whole_ms:
                sample[:] = [now_ms, now_ms, 0.0]
        elapsed_ms = now_ms - min(sample[0] for sample in self.samples)
        full = elapsed_ms // self.options.window_ms
        elapsed_ms += max(0, self.options.window_count - 1 - full) * self.options.window_ms
        return sum(sample[2] for sample in self.samples) * 1_000 / max(1, elapsed_ms)


class PlainElapsedRate:
    """Begun samples only, oldest first."""

    def __init__(self, options: WindowOptions, _now_ms: int) -> None:
        self.options = options
        self.samples: list[list[float]] = []

    def record(self, value: float, now_ms: MonotonicMs) -> None:
        if not self.samples or now_ms - self.samples[-1][0] >= self.options.window_ms:
            kept = self.samples[-self.options.window_count :]
            self.samples = [*kept, [now_ms, now_ms, 0.0]]
        self.samples[-1][1] = now_ms
        self.samples[-1][2] += value

    def rate(self, now_ms: MonotonicMs) -> float:
        whole_ms = self.options.window_count * self.options.window_ms
        self.samples = [sample for sample in self.samples if now_ms - sample[1] < whole_ms]
        if not self.samples:
            return 0.0
        measured_ms = max(self.options.window_ms, now_ms - self.samples[0][0])
        return sum(sample[2] for sample in self.samples) * 1_000 / measured_ms


PLAIN: dict[WindowCredit, type[PlainKafkaRate | PlainElapsedRate]] = {
    WindowCredit.KAFKA: PlainKafkaRate,
    WindowCredit.ELAPSED: PlainElapsedRate,
}


@given(
    st.builds(
        WindowOptions,
        st.integers(1, 13),
        st.sampled_from([100, 1_000]),
        st.sampled_from(WindowCredit),
    ),
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 5_000), st.booleans()), max_size=120),
)
def test_sampled_rate_equals_the_reference(options, steps):
    fast, plain = (
        SampledRate(options, MonotonicMs(0)),
        PLAIN[options.credit](options, MonotonicMs(0)),
    )
    now_ms = 0
    for wait_ms, value, is_measured in steps:
        now_ms += wait_ms
        fast.record(value, now_ms)
        plain.record(value, now_ms)
        if is_measured:
            assert math.isclose(fast.rate(now_ms), plain.rate(now_ms), abs_tol=1e-9)
        fast.measured_ms(MonotonicMs(now_ms))
        assert len(fast.windows()) <= options.window_count + 1


@pytest.mark.parametrize("options", [KAFKA, ELAPSED])
@pytest.mark.parametrize("limit", [1_000.0, 1_048_576.0])
@pytest.mark.parametrize("request_seconds", [0.01, 0.1, 0.5, 1.0])
def test_client_that_waits_gets_its_limit_in_the_long_run(options, limit, request_seconds):
    rate, now_ms, sent = SampledRate(options, MonotonicMs(0)), 0, 0.0
    while now_ms < 600_000:
        rate.record(limit * request_seconds, MonotonicMs(now_ms))
        sent += limit * request_seconds
        now_ms += max(1, rate.delay_ms(limit, MonotonicMs(now_ms)))
    assert sent / now_ms * 1_000 == pytest.approx(limit, rel=0.04)


@examples(30)
@given(
    st.sampled_from([KAFKA, ELAPSED]),
    st.lists(st.floats(0.001, 1.0), min_size=5, max_size=50),
    st.sampled_from([500.0, 50_000.0, 12_345_678.9]),
    st.integers(0, 50),
)
def test_no_pattern_of_obedient_requests_gets_more_than_the_limit(
    options, seconds, limit, pause_ms
):
    """Requests of up to a second's worth; one of more than eleven seconds' worth gets more."""
    rate, now_ms, sent, step = SampledRate(options, MonotonicMs(0)), 0, 0.0, 0
    while now_ms < 240_000:
        size = limit * seconds[step % len(seconds)]
        step += 1
        rate.record(size, MonotonicMs(now_ms))
        sent += size
        now_ms += pause_ms + max(1, rate.delay_ms(limit, MonotonicMs(now_ms)))
    at_once = 11 if options is KAFKA else 2
    assert sent <= limit * (now_ms / 1_000 + at_once) * 1.03


@pytest.mark.slow
def test_sampled_rate_uses_bounded_memory() -> None:
    count, window_count = 500, 11
    tracemalloc.start()
    try:
        rates = [SampledRate(ELAPSED, MonotonicMs(0)) for _ in range(count)]
        new_bytes = tracemalloc.get_traced_memory()[0] / count
        for now_ms in range(0, 40_000, 1_000):
            for rate in rates:
                rate.record(12.5, MonotonicMs(now_ms))
                rate.rate(MonotonicMs(now_ms))
        old_bytes = tracemalloc.get_traced_memory()[0] / count
        for rate in rates:
            rate.record(12.5, MonotonicMs(90_000))
            rate.rate(MonotonicMs(90_000))
        rested_bytes = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert len(rates[0].windows()) == 1
    assert old_bytes < new_bytes + 24 * window_count + 250
    assert rested_bytes < new_bytes + 150


@pytest.mark.parametrize(
    ("options", "apart_ms", "first_ms", "last_ms"),
    [
        (KAFKA, 250, 87_656, 3_310_063),
        (ELAPSED, 250, 96_656, 3_312_063),
        (KAFKA, 60_000, 87_656, 87_656),
        (ELAPSED, 60_000, 96_656, 1_339_313),
    ],
)
def test_a_client_that_reconnects_for_each_request_owes_all_of_them(
    options: WindowOptions, apart_ms: int, first_ms: int, last_ms: int
) -> None:
    """34 requests of 1 MB, each on a connection of its own, under a limit of 10 KiB/s."""
    rate, delays = SampledRate(options, MonotonicMs(0)), []
    for number in range(34):
        now_ms = MonotonicMs(number * apart_ms)
        rate.record(1_000_000, now_ms)
        rate.unsettled += 1_000_000
        delays.append(rate.delay_ms(10 * 1_024, now_ms))
    assert (delays[0], delays[-1]) == (first_ms, last_ms)
