"""What clients pushed, for Prometheus and for the page."""

from prometheus_client.parser import text_string_to_metric_families

from cluster.dashboard import pushed_series, pushed_view
from cluster.dashboard.prometheus import exposition
from cluster.protocol.peer.pushed_metrics import MeasuredLatency
from tests.support.pushing_clients import LATENCY, pushed_answer, pushed_value, pushing_client

LATENCY_ON_1 = pushed_value(f"{LATENCY}.avg", 2.5, {"node_id": "node-1"})


def samples(*answers):
    """The samples of pushed metrics, by name and labels."""
    text = exposition([], pushed=answers, openmetrics=False).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("milena_client_pushed")
    }


def labels(metric, **others):
    head = {"broker": "0", "client_id": "c", "client_instance_id": "id"}
    return frozenset({**head, "metric": metric, **others}.items())


def test_values_become_series_of_two_families():
    sent = pushed_value("sent", 7, {"topic": "t", "partition": "3", "x": "y"}, is_counter=True)
    client = pushing_client(LATENCY_ON_1, sent, labels={"group_id": "g", "member_id": "m"})
    assert samples(pushed_answer(client)) == {
        ("milena_client_pushed_gauge", labels(f"{LATENCY}.avg", group_id="g", node="1")): 2.5,
        (
            "milena_client_pushed_counter_total",
            labels("sent", group_id="g", topic="t", partition="3", attributes="x=y"),
        ): 7,
        ("milena_client_pushed_left_out", frozenset()): 0,
    }


def test_names_of_clients_cannot_break_the_format():
    nasty = 'a"b\\c\nd{}'
    value = pushed_value(nasty, 1, {nasty: nasty, "topic": nasty, "node.id": "?", "node_id": "5"})
    found = samples(pushed_answer(pushing_client(value, client_id=nasty)))
    assert len(found) == 2
    assert {name for name, _ in found} == {
        "milena_client_pushed_gauge",
        "milena_client_pushed_left_out",
    }


def test_series_are_bounded_and_those_pushed_last_kept(monkeypatch):
    monkeypatch.setattr(pushed_series, "SERIES_MAX", 3)
    two = (pushed_value("a", 1), pushed_value("b", 1))
    found = samples(
        pushed_answer(pushing_client(*two, instance="old", ts_ms=1), left_out=4),
        pushed_answer(
            pushing_client(*two, instance="closed", ts_ms=3, is_closed=True),
            pushing_client(*two, instance="new", ts_ms=2),
            broker=1,
        ),
    )
    assert found.pop(("milena_client_pushed_left_out", frozenset())) == 5
    assert {dict(each)["client_instance_id"] for _, each in found} == {"new"}
    assert {dict(each)["broker"] for _, each in found} == {"1"}
    assert len(found) == 2


def test_the_page_shows_both_sides_of_a_latency(monkeypatch):
    monkeypatch.setattr(pushed_view, "SHOWN_MAX", 1)
    slow = pushing_client(LATENCY_ON_1, client_id="slow", instance="s", ts_ms=4_000)
    fast_value = pushed_value(f"{LATENCY}.avg", 0.5, {"node_id": "node-1"})
    fast = pushing_client(fast_value, instance="f", ts_ms=4_900)
    closed = pushing_client(LATENCY_ON_1, instance="x", is_closed=True)
    apis = [{"broker": 1, "api": "Produce", "p50_ms": 0.4, "p99_ms": 1.5}]
    answers = [
        pushed_answer(slow, fast, closed),
        pushed_answer(broker=1, measured=[MeasuredLatency("ann", "slow", "Produce", 700.0)]),
    ]
    found = pushed_view.pushed_view(answers, apis)
    assert (found["clients"], found["left_out"]) == (2, 1)
    assert found["latencies"] == [
        {
            "client_id": "slow",
            "software": "librdkafka 2.16.0",
            "host": "10.0.0.7",
            "role": "producer",
            "broker": 1,
            "avg_ms": 2.5,
            "max_ms": None,
            "api": "Produce",
            "measured_ms": 0.7,
            "p50_ms": 0.4,
            "p99_ms": 1.5,
            "age_ms": 1_000,
        }
    ]
