import socket

import pytest

from cluster.model.errors import UserError
from cluster.runtime.ports import WantedPort, choose_ports


def any_port(owner: str = "broker 0") -> WantedPort:
    return WantedPort(owner, "127.0.0.1", 0, "--port")


def test_zero_is_any_free_port_and_no_two_are_the_same():
    ports = choose_ports([any_port() for _ in range(20)])
    assert len(set(ports)) == 20


def test_a_chosen_port_can_be_bound():
    (port,) = choose_ports([any_port()])
    assert choose_ports([WantedPort("broker 0", "127.0.0.1", port, "--port")]) == [port]


def test_a_taken_port_is_named_with_its_owner_and_the_flag_that_moves_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError) as refused:
            choose_ports([any_port(), WantedPort("registry", "127.0.0.1", port, "--registry-port")])
    assert str(refused.value) == (
        f"port {port} (registry) is already in use; choose another with --registry-port"
    )


def test_another_port_is_chosen_when_the_default_port_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        want = WantedPort("dashboard", "127.0.0.1", usual, "--dashboard-port", is_by_default=True)
        (port,) = choose_ports([want])
    assert port not in (0, usual)
    assert choose_ports([want]) == [usual]


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(UserError, match="not an address of this machine"):
        choose_ports([WantedPort("broker 0", "192.0.2.1", 0, "--port")])


def test_ports_end_at_65535():
    with pytest.raises(UserError, match=r"port 65536 \(broker 1\) is too high"):
        choose_ports([WantedPort("broker 1", "127.0.0.1", 65_536, "--port")])
