"""Latencies as clients see them, from what they pushed."""

from cluster.views.pushed_latencies import latest_clients, pushed_latencies
from tests.support.pushing_clients import LATENCY, pushed_answer, pushed_value, pushing_client


def test_latencies_of_both_client_libraries_are_found():
    found = pushed_latencies(
        [
            pushing_client(
                pushed_value(f"{LATENCY}.avg", 2.5, {"node_id": "node-1"}),
                pushed_value(f"{LATENCY}.max", 9.0, {"node_id": "node-1"}),
                pushed_value(
                    f"{LATENCY.replace('producer', 'consumer')}.avg", 0.5, {"node.id": "0"}
                ),
                pushed_value("org.apache.kafka.producer.record.send.total", 7),
            )
        ]
    )
    assert [(each.role, each.broker, each.avg_ms, each.max_ms, each.api) for each in found] == [
        ("consumer", 0, 0.5, None, "FetchConsumer"),
        ("producer", 1, 2.5, 9.0, "Produce"),
    ]


def test_connections_to_bootstrap_servers_and_coordinators_are_left_out():
    nodes = ("node--1", "node-2147483647", "-1", "", "x")
    values = (pushed_value(f"{LATENCY}.avg", 1.0, {"node_id": node}) for node in nodes)
    assert pushed_latencies([pushing_client(*values, pushed_value(f"{LATENCY}.avg", 1.0))]) == []


def test_closed_clients_are_left_out():
    open_one = pushing_client(pushed_value(f"{LATENCY}.avg", 2.5, {"node_id": "node-1"}))
    assert len(pushed_latencies([open_one])) == 1
    assert pushed_latencies([pushing_client(*open_one.values, is_closed=True)]) == []


def test_a_client_that_changed_its_broker_is_listed_once():
    newer, older = pushing_client(ts_ms=9), pushing_client(ts_ms=3)
    assert latest_clients([pushed_answer(older), pushed_answer(newer)]) == [newer]
    assert latest_clients([pushed_answer(newer), pushed_answer(older)]) == [newer]
