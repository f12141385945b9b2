import socket

import pytest

from cluster.runtime import host_addresses


def test_an_address_is_itself_and_a_name_its_first_address_of_ipv4(monkeypatch):
    assert host_addresses.address_of("192.0.2.1") == "192.0.2.1"
    assert host_addresses.address_of("::1") == "::1"
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: list(found))
    assert host_addresses.address_of("localhost") == "127.0.0.1"
    assert host_addresses.addresses_of("localhost") == ["127.0.0.1", "::1"]


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "Name or service not known"), UnicodeError()]
)
def test_a_name_without_an_address_is_none(monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert host_addresses.address_of("nowhere.invalid") is None
    assert host_addresses.addresses_of("nowhere.invalid") == []
