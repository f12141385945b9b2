import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.datadir.supervisor_socket import NotRunning, ask_supervisor
from cluster.model.errors import UserError
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.supervisor.control_socket import ControlSocket


def answer(request: dict[str, object]) -> dict[str, object]:
    if request["command"] == "refuse":
        raise UserError("not today")
    return {"echo": request["command"]}


@pytest.fixture(params=["short", "long" * 30])
def socket_path(request, tmp_path) -> Iterator[Path]:
    """A supervisor that answers in another thread, at a path that fits a socket address or is too
    long.
    """
    path = tmp_path / request.param / "supervisor.sock"
    path.parent.mkdir()
    loop = EventLoop(SystemClock())
    control = ControlSocket(path, loop, answer)
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield path
    loop.stop()
    thread.join()
    control.close()
    loop.close()
    assert not path.exists()


def test_request_is_answered(socket_path):
    assert ask_supervisor(socket_path, {"command": "status"}) == {"echo": "status"}
    assert socket_path.stat().st_mode & 0o777 == 0o600


def test_refusal_is_passed_on_unchanged(socket_path):
    with pytest.raises(UserError, match="not today"):
        ask_supervisor(socket_path, {"command": "refuse"})


def test_malformed_request_is_answered_without_affecting_the_next_one(socket_path):
    with pytest.raises(UserError, match="cannot understand"):
        ask_supervisor(socket_path, {"nothing": 1})
    assert ask_supervisor(socket_path, {"command": "a"}) == {"echo": "a"}


def test_request_fails_without_a_supervisor(tmp_path):
    with pytest.raises(NotRunning, match="no cluster is running"):
        ask_supervisor(tmp_path / "supervisor.sock", {"command": "status"})


def test_request_fails_with_the_socket_file_of_a_dead_supervisor(tmp_path):
    path = tmp_path / "supervisor.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NotRunning):
        ask_supervisor(path, {"command": "status"})
