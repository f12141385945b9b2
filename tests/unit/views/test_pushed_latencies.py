"""Latencies as clients see them, from what they pushed."""

from cluster.model.error_codes import ErrorCode
from cluster.protocol.peer.pushed_metrics import (
    PushedLabel,
    PushedMetricsAnswer,
    PushedValue,
    PushingClient,
)
from cluster.views.pushed_latencies import latest_clients, pushed_latencies

LATENCY = "org.apache.kafka.producer.node.request.latency"


def value(name: str, amount: float, **labels: str) -> PushedValue:
    pairs = tuple(PushedLabel(key.replace("__", "."), text) for key, text in labels.items())
    return PushedValue(name, pairs, amount, False)


def client(*values: PushedValue, ts_ms: int = 1, is_closed: bool = False) -> PushingClient:
    return PushingClient(
        "id", "c", "librdkafka", "2.16.0", "h", "u", (), ts_ms, 1, 0, is_closed, values
    )


def answer(*clients: PushingClient) -> PushedMetricsAnswer:
    return PushedMetricsAnswer(ErrorCode.none, 0, 5, clients, 0)


def test_latencies_of_both_client_libraries_are_found():
    found = pushed_latencies(
        [
            client(
                value(f"{LATENCY}.avg", 2.5, node_id="node-1"),
                value(f"{LATENCY}.max", 9.0, node_id="node-1"),
                value(f"{LATENCY.replace('producer', 'consumer')}.avg", 0.5, node__id="0"),
                value("org.apache.kafka.producer.record.send.total", 7),
            )
        ]
    )
    assert [(each.role, each.broker, each.avg_ms, each.max_ms, each.api) for each in found] == [
        ("consumer", 0, 0.5, None, "Fetch"),
        ("producer", 1, 2.5, 9.0, "Produce"),
    ]


def test_connections_to_bootstrap_servers_and_coordinators_are_left_out():
    nodes = ("node--1", "node-2147483647", "-1", "", "x")
    values = (value(f"{LATENCY}.avg", 1.0, node_id=node) for node in nodes)
    assert pushed_latencies([client(*values, value(f"{LATENCY}.avg", 1.0))]) == []


def test_closed_clients_are_left_out():
    open_one = client(value(f"{LATENCY}.avg", 2.5, node_id="node-1"))
    assert len(pushed_latencies([open_one])) == 1
    assert pushed_latencies([client(*open_one.values, is_closed=True)]) == []


def test_a_client_that_changed_its_broker_is_listed_once():
    newer, older = client(ts_ms=9), client(ts_ms=3)
    assert latest_clients([answer(older), answer(newer)]) == [newer]
    assert latest_clients([answer(newer), answer(older)]) == [newer]
