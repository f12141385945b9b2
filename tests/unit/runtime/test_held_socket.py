"""A socket that the supervisor holds for the dashboard."""

import os
import socket
from collections.abc import Iterator

import pytest

from cluster.model.errors import UserError
from cluster.runtime.held_socket import HeldSocket, listen

HOST = "127.0.0.1"


@pytest.fixture
def held() -> Iterator[HeldSocket]:
    with listen(HOST, 0) as free:
        port = free.getsockname()[1]
    made = HeldSocket(HOST, port)
    yield made
    made.close()


def port_of(held: HeldSocket) -> int:
    return int(held.taken().getsockname()[1])


def test_a_client_waits_from_when_it_is_open_until_a_child_serves(held: HeldSocket) -> None:
    held.open()
    with socket.create_connection((HOST, port_of(held)), timeout=10) as early:
        early.sendall(b"?")
        pid = os.fork()
        if not pid:  # like a child that dies before it serves
            os._exit(0)
        os.waitpid(pid, 0)
        accepted, _ = held.taken().accept()
        with accepted:
            assert accepted.recv(1) == b"?"


def test_held_socket_is_opened_once_and_again_after_close(held: HeldSocket) -> None:
    held.open()
    first = held.taken()
    held.open()
    assert held.taken() is first
    port = port_of(held)
    held.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=10)
    held.open()
    socket.create_connection((HOST, port), timeout=10).close()


def test_taken_address_is_reported_by_the_child() -> None:
    with listen(HOST, 0) as other:
        held = HeldSocket(HOST, other.getsockname()[1])
        held.open()
        with pytest.raises(UserError, match="choose another --dashboard-port"):
            held.taken()
