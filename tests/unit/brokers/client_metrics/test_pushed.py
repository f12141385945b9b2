"""The values that clients pushed last."""

from uuid import UUID

from cluster.brokers.client_metrics import pushed as module
from cluster.brokers.client_metrics.pushed import PushedMetrics, Series
from cluster.model.clocks import WallMs
from cluster.protocol.otlp import Point, PushedPoints

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def gauge(name: str, value: float) -> Point:
    return Point(name, (), value, False, False)


def counter(name: str, value: float, *, is_delta: bool = True) -> Point:
    return Point(name, (("node", "1"),), value, True, is_delta)


def take(metrics: PushedMetrics, client: UUID, *points: Point, **other) -> None:
    metrics.take(
        client,
        {"client_id": "c"},
        "ann",
        PushedPoints([*points], **other),
        WallMs(len(metrics)),
        is_terminating=False,
    )


def test_differences_are_added_up_and_gauges_replaced():
    metrics = PushedMetrics()
    take(metrics, A, counter("sent", 3), gauge("lag", 7), gauge("gone", 1))
    take(metrics, A, counter("sent", 4), gauge("lag", 5))
    ((_, client),) = metrics
    assert client.series == {
        ("sent", (("node", "1"),)): Series(7, True),
        ("lag", ()): Series(5, False),
    }
    assert client.pushes == 2


def test_values_that_a_client_does_not_have_yet_are_skipped():
    metrics = PushedMetrics()
    take(metrics, A, gauge("latency", float("nan")), gauge("max", float("-inf")))
    ((_, client),) = metrics
    assert (client.series, client.left_out) == ({}, 0)


def test_totals_replace_what_was_known():
    metrics = PushedMetrics()
    take(metrics, A, counter("sent", 3, is_delta=False))
    take(metrics, A, counter("sent", 9, is_delta=False))
    ((_, client),) = metrics
    assert list(client.series.values()) == [Series(9, True)]


def test_values_of_a_client_are_bounded_and_the_rest_counted(monkeypatch):
    monkeypatch.setattr(module, "SERIES_MAX", 2)
    metrics = PushedMetrics()
    take(metrics, A, *(gauge(f"g{number}", number) for number in range(5)), left_out=1)
    ((_, client),) = metrics
    assert len(client.series) == 2
    assert client.left_out == 4


def test_the_memory_of_a_client_is_bounded_and_freed_with_its_gauges(monkeypatch):
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 620)
    metrics = PushedMetrics()
    take(metrics, A, counter("abcd", 1), gauge("x" * 12, 1))  # of 409 and 212 bytes
    ((_, client),) = metrics
    assert [name for name, _ in client.series] == ["abcd"]
    assert (client.kept_bytes, client.left_out) == (409, 1)
    for number in range(3):
        take(metrics, A, gauge(f"{number}" * 11, 1))
        assert len(client.series) == 2
        assert (client.kept_bytes, client.left_out) == (620, 0)


def test_clients_are_bounded_and_listed_from_the_last_push_on(monkeypatch):
    monkeypatch.setattr(module, "CLIENTS_MAX", 2)
    metrics = PushedMetrics()
    for client in (A, B, A, C):
        take(metrics, client, gauge("g", 1))
    assert [client for client, _ in metrics] == [C, A]
    metrics.forget(C)
    metrics.forget(C)
    assert [client for client, _ in metrics] == [A]
