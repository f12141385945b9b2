"""Rows of the stats file follow the quotas; intervals add up to the usage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.metrics.client_rows import ClientRows, configured_limits
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import read_memory
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.quotas import DEFAULT, RULES, Name, QuotaEntity, QuotaKind
from cluster.quotas.client_quotas import ClientQuotas
from tests.support.quota_accounts import on_throttled, record

CLIENT = QuotaEntity(None, "c")


class Bench:
    """The quotas, a file, and the rows between them."""

    def __init__(self, rows=8):
        self.stats = MmapStats.in_memory(slots=1, rows=rows)
        self.quotas = ClientQuotas()
        self.connected = ConnectedClients()
        self.client_rows = ClientRows(self.stats, self.connected)

    def tick(self, now_ms):
        self.client_rows.take_quotas(self.quotas.quotas())
        for usage, state in self.quotas.drain_interval(now_ms):
            self.client_rows.on_usage(usage, state, now_ms, 1_000_000 + now_ms)

    def rows(self):
        return read_memory(memoryview(self.stats.memory)).rows


def test_a_throttled_client_has_its_rule_its_delay_and_its_deadline():
    bench = Bench()
    bench.quotas.set_quota(CLIENT, QuotaKind.PRODUCE, 100.0)
    bench.quotas.set_quota(QuotaEntity(None, DEFAULT), QuotaKind.PRODUCE, 50.0)
    delay_ms = record(bench.quotas, QuotaKind.PRODUCE, "u", "c", 3_000, MonotonicMs(0))
    on_throttled(bench.quotas, QuotaKind.PRODUCE, "u", "c", delay_ms, MonotonicMs(0))
    bench.tick(250)
    (row,) = bench.rows()
    assert (row.user, row.client_id, row.quota) == ("u", "c", "produce")
    assert (row.rule, row.limit) == ("client", 100.0)
    assert dict(zip(RULES, row.limits, strict=True)) == {
        **dict.fromkeys(RULES, None),
        "client": 100.0,
        "default-client": 50.0,
    }
    assert row.delay_ms > 0
    expected_ms = (row.rate - 100) / 100 * row.window_seconds * 1000
    assert row.delay_ms == pytest.approx(expected_ms, abs=1)
    assert row.muted_until_ms == delay_ms
    assert row.muted_left_ms(250) == delay_ms - 250
    assert (row.requests, row.throttled, row.throttle_ms) == (1, 1, delay_ms)
    assert row.throttle_ms_max == delay_ms
    assert row.muted_ms == 250


def test_an_interval_is_the_sum_of_its_ticks_and_is_given_once():
    bench = Bench()
    record(bench.quotas, QuotaKind.FETCH, "u", "c", 10, MonotonicMs(0))
    bench.tick(250)
    record(bench.quotas, QuotaKind.FETCH, "u", "c", 5, MonotonicMs(300))
    on_throttled(bench.quotas, QuotaKind.FETCH, "u", "c", 100, MonotonicMs(300))
    bench.tick(500)
    (interval,) = bench.client_rows.take_intervals()
    assert (interval.usage, interval.requests, interval.throttled) == (15, 2, 1)
    assert (interval.throttle_ms, interval.throttle_ms_max, interval.muted_ms) == (100, 100, 100)
    assert bench.client_rows.take_intervals() == []
    (row,) = bench.rows()
    assert (row.usage, row.requests) == (15, 2)


def test_the_rate_of_a_silent_client_is_followed_down_to_zero():
    bench = Bench()
    record(bench.quotas, QuotaKind.FETCH, "u", "c", 1_000, MonotonicMs(0))
    bench.tick(250)
    assert bench.rows()[0].rate > 0
    (key,) = bench.client_rows.unsettled(10)
    state = bench.quotas.state_of(*key, MonotonicMs(60_000))
    bench.client_rows.on_state(key, state, MonotonicMs(60_000), WallMs(0))
    assert key == (QuotaKind.FETCH, "u", "c")
    assert bench.rows()[0].rate == 0
    assert bench.client_rows.unsettled(10) == []


def test_a_new_client_takes_the_row_of_the_one_silent_longest():
    bench = Bench(rows=2)
    for now_ms, client_id in ((0, "a"), (250, "b"), (500, "a"), (750, "c")):
        record(bench.quotas, QuotaKind.PRODUCE, "u", client_id, 1, MonotonicMs(now_ms))
        bench.tick(now_ms)
    assert sorted(row.client_id for row in bench.rows()) == ["a", "c"]
    assert (bench.client_rows.count, bench.client_rows.lost_count) == (2, 1)
    bench.client_rows.forget_idle(MonotonicMs(750 + 3_600_001))
    assert bench.rows() == []
    assert (bench.client_rows.count, bench.client_rows.lost_count) == (0, 1)


def test_row_has_the_limit_of_every_level():
    names: tuple[Name | None, ...] = ("u", DEFAULT, None)
    client_ids: tuple[Name | None, ...] = ("c", DEFAULT, None)
    quotas = {
        QuotaEntity(user, client): {QuotaKind.FETCH: float(3 * i + j)}
        for i, user in enumerate(names)
        for j, client in enumerate(client_ids)
        if (user, client) != (None, None)
    }
    limits = configured_limits(quotas, (QuotaKind.FETCH, "u", "c"))
    assert limits == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    assert configured_limits(quotas, (QuotaKind.PRODUCE, "u", "c")) == (None,) * 8


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.integers(0, 1_000), st.integers(0, 400), st.booleans()
        ),
        max_size=40,
    )
)
def test_no_usage_is_lost_or_counted_twice(events):
    bench = Bench(rows=4)  # fewer rows than clients: records are complete nevertheless
    used, reported, now_ms = {}, {}, 0

    def collect():
        for interval in bench.client_rows.take_intervals():
            before = reported.get(interval.client_id, (0, 0))
            reported[interval.client_id] = (
                before[0] + interval.usage,
                before[1] + interval.requests,
            )

    for client_id, amount, pause_ms, is_published in events:
        now_ms += pause_ms
        record(bench.quotas, QuotaKind.PRODUCE, "u", client_id, amount, now_ms)
        before = used.get(client_id, (0, 0))
        used[client_id] = (before[0] + amount, before[1] + 1)
        bench.tick(now_ms)
        if is_published:
            collect()
    collect()
    assert reported == used
    assert len(bench.rows()) <= 4
