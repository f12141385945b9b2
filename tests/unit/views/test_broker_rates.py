"""Rates of brokers from two readings, whoever else looks meanwhile."""

from dataclasses import replace

from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.histogram import BUCKETS, Histogram, bucket_of
from cluster.metrics.kafka_names import requests_of
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import Stats
from cluster.views.broker_rates import PastReadings, api_rates, idle_share, metric_values


def reading(written_ms: int, values: dict[str, float] | None = None, pid: int = 1) -> Stats:
    return Stats("broker-0", pid, pid, 0, written_ms, values or {}, [])


def test_counters_are_told_per_second_and_gauges_as_they_are() -> None:
    metrics = (BY_KEY["BytesInPerSec"], BY_KEY["ConnectionCount"])
    name_in, name_connections = (each.name for each in metrics)
    former = reading(1_000, {name_in: 500, name_connections: 7})
    now = reading(3_000, {name_in: 2_500, name_connections: 3})
    assert metric_values(now, former, metrics) == {"BytesInPerSec": 1_000.0, "ConnectionCount": 3}
    assert metric_values(now, None, metrics) == {"BytesInPerSec": 2_500, "ConnectionCount": 3}
    assert metric_values(now, now, metrics)["BytesInPerSec"] == 0.0


def test_the_idle_share_is_what_the_thread_did_not_use() -> None:
    busy = BY_KEY["BusyTimeUs"].name
    assert idle_share(reading(2_000, {busy: 250_000}), reading(1_000, {busy: 0})) == 0.75
    assert idle_share(reading(2_000, {busy: 9_000_000}), reading(1_000, {busy: 0})) == 0.0
    assert idle_share(reading(1_000, {busy: 1}), reading(1_000, {busy: 1})) is None
    assert idle_share(reading(2_000), reading(1_000)) is None


def times(of_us: dict[int, int]) -> Histogram:
    counts = [0] * BUCKETS
    for duration_us, count in of_us.items():
        counts[bucket_of(duration_us)] += count
    return Histogram(sum(us * count for us, count in of_us.items()), tuple(counts))


def test_apis_are_told_with_percentiles_of_what_came_between() -> None:
    produce, fetch = requests_of("PRODUCE"), requests_of("FETCH")
    former = reading(0, {produce: 1_000, fetch: 5})
    former.requests["Produce"] = {"TotalTimeMs": times({10_000: 1_000})}
    now = reading(2_000, {produce: 1_100, fetch: 5})
    now.requests["Produce"] = {
        "TotalTimeMs": times({10_000: 1_002, 100: 98}),
        "LocalTimeMs": times({50: 1_100}),
    }
    (told,) = api_rates(now, former)
    assert (told.api, told.requests_per_s) == ("Produce", 50.0)
    assert told.p50_ms is not None
    assert told.p99_ms is not None
    assert 0.064 <= told.p50_ms < 0.128
    assert 8.0 < told.p99_ms <= 16.384
    assert told.local_p99_ms is not None
    assert 0.032 <= told.local_p99_ms < 0.064
    assert api_rates(now, now) == []


def test_rates_are_over_the_same_time_however_often_somebody_looks() -> None:
    past = PastReadings(span_ms=1_000)
    compared = []
    for written_ms in range(0, 5_000, 250):
        former = past.add(0, reading(written_ms))
        past.add(0, reading(written_ms))  # somebody else looks at the same
        compared.append(None if former is None else written_ms - former.written_ms)
    assert compared[:2] == [None, None]
    assert set(compared[4:]) == {1_000}


def test_brokers_that_are_looked_at_seldom_are_compared_with_the_last_look() -> None:
    past = PastReadings(span_ms=1_000)
    assert past.add(0, reading(0)) is None
    for written_ms in (60_000, 120_000):
        former = past.add(0, reading(written_ms))
        assert former is not None
        assert former.written_ms == written_ms - 60_000


def test_a_restarted_broker_is_not_compared_with_its_former_process() -> None:
    past = PastReadings(span_ms=1_000)
    past.add(0, reading(0))
    assert past.add(0, reading(5_000, pid=2)) is None
    assert past.add(1, reading(6_000)) is None
    former = past.add(0, reading(6_000, pid=2))
    assert former is not None
    assert former.written_ms == 5_000


def test_past_readings_do_not_keep_clients_and_groups() -> None:
    past = PastReadings(span_ms=1_000)
    stats = replace(
        reading(0), rows=[QuotaRow(quota="fetch", user="u", client_id="c")], groups=b"x"
    )
    past.add(0, stats)
    former = past.add(0, reading(2_000))
    assert former is not None
    assert (former.rows, former.groups) == ([], b"")
    assert former.values == stats.values
