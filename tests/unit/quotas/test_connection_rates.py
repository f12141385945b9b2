"""How fast connections are accepted (KIP-612), with a fake clock."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.model.clocks import MonotonicMs
from cluster.model.quotas import DEFAULT, Name, QuotaEntity, QuotaKind
from cluster.quotas.connection_rates import HOSTS_MAX, ConnectionRates, CreationRates
from cluster.quotas.sampled_rate import WindowOptions
from tests.support.examples import examples

AT_ONCE = MonotonicMs(0)


def limited(limits: dict[Name, float]) -> ConnectionRates:
    rates = ConnectionRates(WindowOptions())
    rates.take_quotas(
        {QuotaEntity(None, None, ip): {QuotaKind.CONNECTION: rate} for ip, rate in limits.items()}
    )
    return rates


def test_connection_rates_are_unlimited_by_default():
    rates = limited({})
    for _ in range(1_000):
        assert rates.close_after_ms("192.0.2.7", AT_ONCE) == 0
        assert rates.pause_ms("PLAINTEXT", AT_ONCE) == (0, 0)


def test_an_address_above_its_rate_is_refused_after_a_delay_and_that_is_not_counted():
    rates = limited({"192.0.2.7": 2.0, DEFAULT: 3.0})
    let_in = [rates.close_after_ms("192.0.2.7", AT_ONCE) for _ in range(5)]
    assert let_in == [0, 0, 500, 500, 500]
    assert [rates.close_after_ms("192.0.2.8", AT_ONCE) for _ in range(4)] == [0, 0, 0, 333]
    assert rates.refused_count == 4
    assert rates.close_after_ms("192.0.2.7", MonotonicMs(1_500)) == 0
    assert rates.close_after_ms("192.0.2.7", MonotonicMs(1_500)) == 500


def test_an_address_waits_a_window_at_most():
    rates = limited({"::1": 0.1})
    assert rates.close_after_ms("::1", AT_ONCE) == 1_000
    assert rates.close_after_ms("::1", MonotonicMs(10_000)) == 0


def test_an_address_without_a_limit_any_more_is_forgotten():
    rates = limited({DEFAULT: 1.0})
    assert [rates.close_after_ms("::1", AT_ONCE) for _ in range(2)] == [0, 1_000]
    rates.take_quotas({})
    assert rates.close_after_ms("::1", AT_ONCE) == 0


def test_accepting_pauses_above_the_rate_of_the_broker_or_a_listener():
    rates = ConnectionRates(WindowOptions())
    rates.limit(CreationRates(4, {"INSIDE": 2}))
    pauses = [rates.pause_ms("INSIDE", AT_ONCE) for _ in range(3)]
    assert pauses == [(0, 0), (0, 0), (500, 0)]
    assert rates.pause_ms("OUTSIDE", AT_ONCE) == (0, 0)
    assert rates.pause_ms("OUTSIDE", AT_ONCE) == (0, 250)
    rates.limit(CreationRates(None, {}))
    assert rates.pause_ms("INSIDE", AT_ONCE) == (0, 0)


def test_rate_of_zero_pauses_for_a_window_each_time():
    rates = ConnectionRates(WindowOptions())
    rates.limit(CreationRates(0, {}))
    assert [rates.pause_ms("INSIDE", MonotonicMs(at)) for at in (0, 5_000)] == [(0, 1_000)] * 2


def test_any_number_of_addresses_takes_bounded_memory():
    """The oldest addresses are forgotten, so they may begin again."""
    rates = limited({DEFAULT: 1.0})
    for number in range(HOSTS_MAX + 1):
        assert rates.close_after_ms(f"2001:db8::{number:x}", AT_ONCE) == 0
    assert rates.close_after_ms("2001:db8::0", AT_ONCE) == 0
    assert rates.close_after_ms(f"2001:db8::{HOSTS_MAX:x}", AT_ONCE) == 1_000


@given(
    st.floats(0.5, 50),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 700)), max_size=80),
)
@examples(100)
def test_no_pattern_of_connections_is_let_in_faster_than_the_rate(rate, arrivals):
    rates = limited({DEFAULT: rate})
    let_in: dict[str, list[int]] = {"a": [], "b": []}
    now_ms = 0
    for host, pause_ms in arrivals:
        now_ms += pause_ms
        if not rates.close_after_ms(host, MonotonicMs(now_ms)):
            let_in[host].append(now_ms)
    for times in let_in.values():
        # In all windows together, plus one window's worth at the beginning.
        within = [sum(at - 11_000 < each <= at for each in times) for at in times]
        assert max(within, default=0) <= rate * 12 + 1
