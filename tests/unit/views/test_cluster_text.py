"""What `start` and `status` say of the listeners of brokers, and of who can connect to them."""

import pytest

from cluster.views.cluster_text import how_to_go_on, table


def a_listener(name: str, protocol: str, port: int, listens_on: str = "127.0.0.1"):
    return {
        "name": name,
        "protocol": protocol,
        "listens_on": listens_on,
        "host": "127.0.0.1",
        "port": port,
    }


def a_state(*listeners):
    return {
        "data_dir": "/data",
        "registry": "zk:2181",
        "registry_process": None,
        "bootstrap": "127.0.0.1:1",
        "brokers": [
            {
                "id": 0,
                "state": "running",
                "pid": 7,
                "host": "127.0.0.1",
                "port": 1,
                "listeners": list(listeners),
            }
        ],
    }


def test_a_single_listener_is_shown_by_its_address():
    text = table(a_state(a_listener("CLIENTS", "PLAINTEXT", 1)))
    assert "127.0.0.1:1 " in text
    assert "CLIENTS" not in text


def test_each_of_several_listeners_has_a_line_with_its_name():
    text = table(a_state(a_listener("A", "PLAINTEXT", 1), a_listener("B", "SSL", 2)))
    first, second = text.splitlines()[-2:]
    assert first.split()[:4] == ["broker", "0", "running", "A://127.0.0.1:1"]
    assert second.split() == ["B://127.0.0.1:2"]


def test_racks_have_a_column_if_a_broker_has_one():
    state = a_state(a_listener("A", "PLAINTEXT", 1))
    assert "RACK" not in table(state)
    state["brokers"][0]["rack"] = "east"
    heading, *_, last = table(state).splitlines()
    assert heading.split() == ["NODE", "STATUS", "ADDRESS", "RACK", "PID", "LOG"]
    assert last.split()[3:6] == ["127.0.0.1:1", "east", "7"]


@pytest.mark.parametrize(
    ("listeners", "said"),
    [
        ([a_listener("A", "PLAINTEXT", 1)], "Only this machine can connect."),
        (
            [a_listener("A", "PLAINTEXT", 1, "0.0.0.0")],
            "Brokers listen on 0.0.0.0; there is no authentication on A.",
        ),
        (
            [
                a_listener("A", "PLAINTEXT", 1),
                a_listener("B", "SASL_PLAINTEXT", 2, "10.0.0.1"),
                a_listener("C", "SASL_SSL", 3, "10.0.0.2"),
            ],
            "Brokers listen on 10.0.0.1, 10.0.0.2; there is no encryption on B.",
        ),
        ([a_listener("C", "SASL_SSL", 3, "::")], "Brokers listen on ::."),
    ],
)
def test_listeners_are_printed_with_their_protection(listeners, said):
    assert said in how_to_go_on(a_state(*listeners), foreground=False)


def test_start_prints_the_password_file_only_if_login_is_required():
    state = a_state(a_listener("A", "PLAINTEXT", 1))
    assert "DASHBOARD" not in how_to_go_on(state, foreground=False)
    url = {**state, "dashboard": "http://127.0.0.1:9292/", "dashboard_login": None}
    assert "DASHBOARD=http://127.0.0.1:9292/\n\n" in how_to_go_on(url, foreground=False)
    login = {"user": "milena", "password_file": "/data/dashboard-password"}
    assert (
        "DASHBOARD=http://127.0.0.1:9292/\n"
        "  (asks for user milena and the password in /data/dashboard-password)\n"
    ) in how_to_go_on({**url, "dashboard_login": login}, foreground=False)


def test_a_registry_and_a_dashboard_that_others_reach_are_said_too():
    process = {"state": "running", "pid": 8, "host": "127.0.0.1", "port": 3}
    of_registry = {**process, "listens_on": "0.0.0.0"}
    own = {"registry_process": of_registry, "dashboard_process": {**process, "listens_on": "::"}}
    local = a_state(a_listener("A", "PLAINTEXT", 1))
    said = how_to_go_on({**local, **own}, foreground=False)
    assert "The registry listens on 0.0.0.0. The dashboard listens on ::." in said
    assert "Only this machine" not in said
    away = a_state(a_listener("A", "SASL_SSL", 1, "10.0.0.1"))
    said = how_to_go_on({**away, "registry_process": of_registry}, foreground=False)
    assert "Brokers listen on 10.0.0.1. The registry listens on 0.0.0.0." in said
