import json
import socket

import pytest

from cluster.coordinator.registry.client.registry_access import RegistryAccess
from cluster.supervisor import dead_sessions
from cluster.supervisor.dead_sessions import close_dead_session, registry_hosts


@pytest.fixture
def session_file(tmp_path):
    path = tmp_path / "broker-0.session"
    path.write_text(json.dumps({"session_id": 77, "password": "00ff"}))
    return path


def test_first_registry_that_answers_closes_the_session(monkeypatch, session_file):
    asked = []

    access = RegistryAccess("sasl", "a", "b")

    def close(host, port, session_id, password, timeout_ms, access):
        asked.append((host, port, session_id, password, access))
        if host == "gone":
            raise ConnectionRefusedError
        return True

    monkeypatch.setattr(dead_sessions, "close_session", close)
    assert close_dead_session(session_file, "gone:1,there:2,other:3/chroot", access)
    assert asked == [(*server, 77, b"\x00\xff", access) for server in (("gone", 1), ("there", 2))]
    assert not session_file.exists()


def test_file_is_kept_while_no_registry_answers(monkeypatch, session_file):
    def close(*_):
        raise TimeoutError

    monkeypatch.setattr(dead_sessions, "close_session", close)
    assert not close_dead_session(session_file, "gone:1")
    assert session_file.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"session_id": 1, "password": "x"}'])
def test_unreadable_file_closes_no_session(tmp_path, text):
    path = tmp_path / "broker-0.session"
    path.write_text(text)
    assert not close_dead_session(path, "gone:1")
    assert not close_dead_session(tmp_path / "none", "gone:1")


def test_invalid_session_is_not_closed(session_file):
    session_file.write_text(json.dumps({"session_id": 1 << 70, "password": "00ff"}))
    with socket.create_server(("127.0.0.1", 0)) as registry:
        port = registry.getsockname()[1]
        assert not close_dead_session(session_file, f"127.0.0.1:nonsense,127.0.0.1:{port}")


def test_registry_hosts_parses_addresses():
    assert registry_hosts("a:1,b:2/x/y") == [("a", 1), ("b", 2)]
    assert registry_hosts("a") == [("a", 2181)]
