"""The ports of the last start are taken again, or the refusal names who has them."""

import os
import socket
from pathlib import Path

import pytest

from cluster.launch.options import StartOptions
from cluster.launch.port_conflicts import conflict, free_options
from cluster.launch.port_memory import (
    chosen_ports,
    listener_ports,
    was_chosen,
    with_ports_of_last_start,
)
from cluster.runtime.ports import WantedPort

HOST = "127.0.0.1"


def test_options_keep_the_ports_that_earlier_options_have_chosen(tmp_path: Path) -> None:
    state = {"chosen_ports": {"port": 9500, "registry_port": 2300, "dashboard_port": "?"}}
    again = with_ports_of_last_start(StartOptions(tmp_path), state)
    assert (again.port, again.registry_port, again.dashboard_port) == (9500, 2300, None)
    named = with_ports_of_last_start(StartOptions(tmp_path, port=0, registry_port=7), state)
    assert (named.port, named.registry_port) == (0, 7)
    listeners = StartOptions(tmp_path, overrides=("listeners=PLAINTEXT://:9600",))
    assert with_ports_of_last_start(listeners, state).port is None
    port = WantedPort("registry", HOST, 2300, "--registry-port")
    assert was_chosen(port, StartOptions(tmp_path), again)
    assert not was_chosen(port, StartOptions(tmp_path, registry_port=7), named)
    assert not was_chosen(port, StartOptions(tmp_path), StartOptions(tmp_path))
    for other in (None, {}, {"chosen_ports": None}):
        assert with_ports_of_last_start(StartOptions(tmp_path), other) == StartOptions(tmp_path)


def test_only_what_options_have_chosen_is_remembered(tmp_path: Path) -> None:
    assert chosen_ports(StartOptions(tmp_path), 2181, 9292) == {}
    options = StartOptions(tmp_path, port=0, registry_port=0, dashboard_port=9300)
    assert chosen_ports(options, 15_001, 9301)["dashboard_port"] == 9300, "9300 was taken"
    assert chosen_ports(options, 15_001, None) == {
        "port": 0,
        "registry_port": 15_001,
        "dashboard_port": 9300,
    }


def test_ports_of_listeners_are_found_by_broker_and_name() -> None:
    broker = {"id": 4, "listeners": [{"name": "A", "port": 15_000}, {"name": "B"}]}
    assert listener_ports({"brokers": [broker, {"id": 5}]}) == {(4, "A"): 15_000}
    assert listener_ports(None) == {}


@pytest.fixture
def taken() -> int:
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def test_refusal_names_the_holder_and_options_with_free_ports(taken: int) -> None:
    brokers = [WantedPort(f"broker {n}", HOST, taken + n, "--port") for n in range(2)]
    registry = WantedPort("registry", HOST, 0, "--registry-port")
    problem = str(conflict(brokers[0], [*brokers, registry], from_last_start=True))
    assert problem.startswith(f"port {taken} (broker 0, as at the last start) is already in use by")
    assert f"(pid {os.getpid()}): start with --port " in problem
    (option,) = free_options([*brokers, registry])
    first = int(option.removeprefix("--port "))
    for port in (first, first + 1):
        socket.create_server((HOST, port)).close()


def test_refusal_names_the_owners_of_one_port(taken: int) -> None:
    broker = WantedPort("broker 1", HOST, taken, "--port")
    registry = WantedPort("registry", HOST, taken, "--registry-port")
    other = WantedPort("dashboard", HOST, taken, "--dashboard-port")
    assert "is already in use by" in str(conflict(broker, [broker, other], from_last_start=False))
    with socket.create_server((HOST, 0)) as server:
        free = server.getsockname()[1]
    mine = [each._replace(port=free) for each in (broker, registry)]
    assert str(conflict(mine[1], mine, from_last_start=False)) == (
        f"port {free} (registry) is that of broker 1, too: choose another --registry-port"
    )
    assert str(conflict(mine[0], mine[:1], from_last_start=False)) == (
        f"port {free} (broker 1) was already in use, and is free now: start again"
    )
