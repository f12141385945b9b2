"""A real supervisor with real processes that do nothing: forks, deaths, signals, order."""

import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.datadir.lock_file import is_locked
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import NotRunning, ask_supervisor
from cluster.model.errors import UserError
from tests.support.waiting import DEADLINE_S, wait_until

ROOT = Path(__file__).parents[2]


class DummyCluster:
    """A supervisor process, and what can be seen of it from outside."""

    def __init__(self, path: Path) -> None:
        self.files = DataDir(path)
        self.files.path.mkdir()
        self.process: subprocess.Popen[str] | None = None

    def start(self, output: int = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(
            [sys.executable, ROOT / "tests/support/dummy_cluster.py", self.files.path, "2"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def start_and_wait(self) -> None:
        self.start()
        until(lambda: self.state()["state"] == "up")

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def output(self) -> str:
        """Everything it printed, once it has ended."""
        assert self.process is not None
        return self.process.communicate(timeout=DEADLINE_S)[0]

    def ask(self, command: str, **more: Any) -> dict[str, Any]:
        return ask_supervisor(self.files.control_socket, {"command": command, **more})

    def state(self) -> dict[str, Any]:
        try:
            return self.ask("status")
        except NotRunning:
            return {"state": "not running"}

    def broker(self, number: int) -> dict[str, Any]:
        broker: dict[str, Any] = self.state()["brokers"][number]
        return broker

    def pids(self) -> list[int]:
        state = self.state()
        return [state["registry_process"]["pid"], *(each["pid"] for each in state["brokers"])]

    def events(self) -> list[tuple[str, str]]:
        """(child, what happened), in order."""
        lines = (self.files.path / "events").read_text().splitlines()
        return [(name, " ".join(words)) for name, *words, _pid in map(str.split, lines)]


def until(condition: Callable[[], bool]) -> None:
    wait_until(condition, "it")


@pytest.fixture
def cluster(tmp_path) -> Iterator[DummyCluster]:
    dummies = DummyCluster(tmp_path / "data")
    yield dummies
    process = dummies.process
    if process is not None:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_registry_first_then_brokers_then_it_says_so(cluster):
    cluster.start_and_wait()
    assert cluster.events()[0] == ("registry", "started")
    assert sorted(cluster.events()[1:]) == [("broker-0", "started"), ("broker-1", "started")]
    written = json.loads(cluster.files.state_file.read_text())
    assert written["bootstrap"] == "127.0.0.1:1,127.0.0.1:1"
    assert written["cluster_id"] == "dummies"
    cluster.send(signal.SIGINT)
    lines = cluster.output().splitlines()
    assert any(line.startswith("Cluster ready in ") for line in lines)
    assert "BOOTSTRAP=127.0.0.1:1,127.0.0.1:1" in lines


def test_interrupt_stops_brokers_one_by_one_and_then_the_registry(cluster):
    cluster.start_and_wait()
    cluster.send(signal.SIGINT)
    assert "Cluster stopped in " in cluster.output()
    assert cluster.process.returncode == 0
    assert cluster.events()[3:] == [
        ("broker-0", "told to stop"),
        ("broker-1", "told to stop"),
        ("registry", "told to stop"),
    ]
    assert not is_locked(cluster.files.lock_file)
    assert not cluster.files.control_socket.exists()
    assert json.loads(cluster.files.state_file.read_text())["state"] == "stopped"


def test_a_second_interrupt_kills_who_does_not_stop(cluster):
    (cluster.files.path / "stubborn").write_text("0")
    cluster.start_and_wait()
    cluster.send(signal.SIGINT)
    until(lambda: ("broker-0", "told to stop") in cluster.events())
    cluster.send(signal.SIGINT)
    assert "Killing" in cluster.output()


def test_a_closing_terminal_or_a_second_stop_does_not_kill(cluster):
    (cluster.files.path / "stubborn").write_text("0")
    cluster.start_and_wait()
    cluster.send(signal.SIGHUP)
    until(lambda: ("broker-0", "told to stop") in cluster.events())
    cluster.send(signal.SIGHUP)
    for _ in range(3):
        assert cluster.ask("stop")["brokers"][0]["state"] == "stopping"
    with pytest.raises(
        UserError, match="the cluster is stopping: processes cannot be restarted now"
    ):
        cluster.ask("restart", id=1)
    cluster.send(signal.SIGINT)
    assert cluster.output().count("Killing") == 1


def test_a_dead_broker_is_started_again_after_a_pause(cluster):
    cluster.start_and_wait()
    pid = cluster.broker(1)["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: cluster.broker(1)["state"] == "restarting")
    until(lambda: cluster.broker(1)["state"] == "running")
    assert cluster.broker(1)["pid"] != pid
    assert cluster.broker(1)["restarts"] == 1


def test_a_death_by_a_signal_without_a_name_is_survived(cluster):
    cluster.start_and_wait()
    os.kill(cluster.broker(1)["pid"], signal.SIGRTMIN + 6)
    until(lambda: cluster.broker(1)["restarts"] == 1)
    until(lambda: cluster.broker(1)["state"] == "running")


def test_a_dead_broker_is_started_again_while_the_terminal_is_paused(cluster):
    terminal, output = pty.openpty()
    cluster.start(output)
    until(lambda: cluster.state()["state"] == "up")
    termios.tcflow(output, termios.TCOOFF)  # Ctrl-S
    for restarts in (1, 2):
        os.kill(cluster.broker(1)["pid"], signal.SIGKILL)
        until(lambda count=restarts: cluster.broker(1)["restarts"] == count)
        until(lambda: cluster.broker(1)["state"] == "running")
    termios.tcflow(output, termios.TCOON)
    os.close(output)
    said = bytearray()

    def is_said() -> bool:
        said.extend(os.read(terminal, 65_536))
        return said.count(b"Broker 1 is running again") == 2

    until(is_said)
    cluster.send(signal.SIGKILL)
    cluster.process.wait(DEADLINE_S)
    os.close(terminal)


def test_a_state_that_cannot_be_written_does_not_end_the_cluster(cluster):
    cluster.start_and_wait()
    draft = cluster.files.state_file.with_name("cluster.json.new")
    draft.mkdir()
    os.kill(cluster.broker(1)["pid"], signal.SIGKILL)
    until(lambda: cluster.broker(1)["restarts"] == 1)
    until(lambda: cluster.broker(1)["state"] == "running")
    draft.rmdir()
    cluster.send(signal.SIGINT)
    assert "Cluster stopped in " in cluster.output()
    assert json.loads(cluster.files.state_file.read_text())["state"] == "stopped"


def test_a_process_that_cannot_be_forked_is_tried_again(cluster):
    cluster.start_and_wait()
    pid = cluster.process.pid
    victim = cluster.broker(1)["pid"]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    os.kill(victim, signal.SIGKILL)
    log_file = cluster.files.log("supervisor")
    until(lambda: "could not be forked: Too many open files" in log_file.read_text())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: cluster.broker(1)["state"] == "running")


def test_a_dead_registry_is_started_again_while_brokers_stay(cluster):
    cluster.start_and_wait()
    registry, *brokers = cluster.pids()
    cluster.ask("kill", id="registry", signal=int(signal.SIGKILL))
    until(lambda: cluster.state()["registry_process"]["state"] == "running")
    until(lambda: cluster.state()["registry_process"]["pid"] not in (registry, None))
    assert cluster.pids()[1:] == brokers


def test_children_do_not_outlive_a_killed_supervisor(cluster):
    cluster.start_and_wait()
    pids = cluster.pids()
    cluster.send(signal.SIGKILL)
    until(lambda: all(map(is_gone, pids)))
    assert not is_locked(cluster.files.lock_file)
    assert cluster.state() == {"state": "not running"}


def test_a_broker_can_be_held_down_and_brought_back(cluster):
    cluster.start_and_wait()
    cluster.ask("kill", id=0, signal=int(signal.SIGKILL), stay_down=True)
    until(lambda: cluster.broker(0)["state"] == "stopped (stays down)")
    with pytest.raises(UserError, match=r"broker 0 is stopped \(stays down\)"):
        cluster.ask("kill", id=0, signal=int(signal.SIGKILL))
    cluster.ask("restart", id=0)
    until(lambda: cluster.broker(0)["state"] == "running")


def test_a_paused_broker_is_restarted_cleanly(cluster):
    cluster.start_and_wait()
    pid = cluster.broker(1)["pid"]
    cluster.ask("kill", id=1, signal=int(signal.SIGSTOP))
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    assert cluster.broker(1)["state"] == "paused"
    cluster.ask("restart", id=1)
    until(lambda: cluster.broker(1)["state"] == "running" and cluster.broker(1)["pid"] != pid)
    assert ("broker-1", "told to stop") in cluster.events()


def test_an_unknown_broker_is_refused(cluster):
    cluster.start_and_wait()
    with pytest.raises(UserError, match="there is no broker 7: choose one of registry, 0, 1"):
        cluster.ask("kill", id=7, signal=9)


def test_a_child_that_cannot_start_stops_everything_and_its_reason_is_told(cluster):
    (cluster.files.path / "broken").write_text("1")
    cluster.start()
    lines = cluster.output().splitlines()
    assert "Cannot start: broker 1: the disk is somebody else's" in lines
    assert any("ERROR" in line and "the disk is somebody else's" in line for line in lines)
    assert cluster.process.returncode == 1
    assert not is_locked(cluster.files.lock_file)


def test_status_reports_what_happened_to_each_process(cluster):
    cluster.start_and_wait()

    def told() -> list[str]:
        events = cluster.state()["events"]
        assert [each["ts"] for each in events] == sorted(each["ts"] for each in events)
        return [each["text"] for each in events if each["process"] == "broker 1"]

    def kinds() -> list[tuple[str, str | None]]:
        events = cluster.state()["events"]
        return [(each["kind"], each["cause"]) for each in events if each["subject"] == "broker 1"]

    assert told() == ["is running"]
    cluster.ask("kill", id=1, signal=int(signal.SIGSTOP))
    cluster.ask("kill", id=1, signal=int(signal.SIGCONT))
    cluster.ask("restart", id=1)
    until(lambda: told()[-1] == "is running again")
    os.kill(cluster.broker(1)["pid"], signal.SIGKILL)
    until(lambda: told().count("is running again") == 2)
    cluster.ask("kill", id=1, signal=int(signal.SIGKILL), stay_down=True)
    until(lambda: cluster.broker(1)["state"] == "stopped (stays down)")
    assert told()[1:] == [
        "is paused by a command (SIGSTOP)",
        "is resumed by a command (SIGCONT)",
        "is restarted by a command",
        "ended with exit status 0",
        "is running again",
        "was killed by SIGKILL; starting it again in 0.1 s",
        "is running again",
        "is sent SIGKILL by a command, and stays down",
        "was killed by SIGKILL",
    ]
    assert kinds() == [
        ("start", None),
        ("pause", "command"),
        ("resume", "command"),
        ("restart", "command"),
        ("stop", "restarted by a command"),
        ("start", None),
        ("death", None),
        ("start", None),
        ("signal", "command"),
        ("death", "SIGKILL sent by a command"),
    ]
    controllers = [e for e in cluster.state()["events"] if e["text"] == "is the controller"]
    assert [each["process"] for each in controllers] == ["broker 0"]
    assert "events" not in json.loads(cluster.files.state_file.read_text())


@pytest.mark.parametrize("removed", [".", "run", "run/supervisor.sock", "run/supervisor.lock"])
def test_supervisor_ends_when_its_directory_is_removed(cluster: DummyCluster, removed: str) -> None:
    cluster.start_and_wait()
    pids = cluster.pids()
    path = cluster.files.path / removed
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(path, ignore_errors=True)  # a process may have written meanwhile
    else:
        path.unlink()
    output = cluster.output()
    assert cluster.process is not None
    assert cluster.process.returncode == 1
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    assert line.endswith("was removed while the cluster was running: stopping it")
    assert str(path) in line
    assert "Traceback" not in output
    until(lambda: not any(map(psutil.pid_exists, pids)))


def test_supervisor_ends_when_its_directory_is_replaced(cluster: DummyCluster) -> None:
    cluster.start_and_wait()
    cluster.files.path.rename(cluster.files.path.with_name("moved"))
    cluster.files.run.mkdir(parents=True)
    cluster.files.control_socket.touch()  # another supervisor's
    assert "was removed while the cluster was running" in cluster.output()
    assert cluster.files.control_socket.exists()


def test_supervisor_writes_its_state_anew_when_the_file_is_removed(cluster: DummyCluster) -> None:
    cluster.start_and_wait()
    cluster.files.state_file.unlink()
    until(cluster.files.state_file.exists)
    assert cluster.state()["state"] == "up"
    cluster.ask("stop")
    assert "error" not in cluster.output()


def remembered(cluster: DummyCluster) -> list[int]:
    return [each["id"] for each in json.loads(cluster.files.state_file.read_text())["brokers"]]


def broker_state(cluster: DummyCluster, broker: int) -> str | None:
    state = cluster.ask("broker-state", id=broker)["broker"]
    return None if state is None else str(state["state"])


def test_a_broker_is_added_and_removed_while_the_others_run(cluster):
    cluster.start_and_wait()
    pids = cluster.pids()
    assert cluster.ask("add-broker")["id"] == 2
    assert cluster.ask("add-broker", in_use=[6])["id"] == 7
    until(lambda: broker_state(cluster, 2) == broker_state(cluster, 7) == "running")
    assert remembered(cluster) == [0, 1, 2, 7]
    with pytest.raises(UserError, match="there is a broker 1 already"):
        cluster.ask("add-broker", id=1)

    cluster.ask("remove-broker", id=2)
    until(lambda: broker_state(cluster, 2) is None)
    os.kill(cluster.broker(2)["pid"], signal.SIGKILL)
    until(lambda: broker_state(cluster, 7) == "restarting")
    cluster.ask("remove-broker", id=7)
    assert broker_state(cluster, 7) is None
    assert remembered(cluster) == [0, 1]
    assert cluster.pids() == pids
    with pytest.raises(UserError, match="there is no broker 7"):
        cluster.ask("remove-broker", id=7)
    cluster.ask("remove-broker", id=0)
    until(lambda: broker_state(cluster, 0) is None)
    with pytest.raises(UserError, match="broker 1 is the only one"):
        cluster.ask("remove-broker", id=1)


def test_the_last_broker_stays_while_another_one_is_still_leaving(cluster):
    (cluster.files.path / "stubborn").write_text("0")
    cluster.start_and_wait()
    leaving = cluster.broker(0)["pid"]
    cluster.ask("remove-broker", id=0)
    with pytest.raises(UserError, match="broker 1 is the only one that stays"):
        cluster.ask("remove-broker", id=1)
    os.kill(leaving, signal.SIGKILL)
    until(lambda: broker_state(cluster, 0) is None)
    assert broker_state(cluster, 1) == "running"
    assert remembered(cluster) == [1]


def test_an_added_broker_that_cannot_start_is_forgotten_and_the_others_stay(cluster):
    (cluster.files.path / "broken").write_text("2")
    cluster.start_and_wait()
    assert cluster.ask("add-broker")["id"] == 2
    until(lambda: len(cluster.state()["brokers"]) == 2)
    with pytest.raises(UserError, match="broker 2 could not start: the disk is somebody else's"):
        cluster.ask("broker-state", id=2)
    assert remembered(cluster) == [0, 1]
    assert cluster.state()["state"] == "up"
    (cluster.files.path / "broken").unlink()
    cluster.ask("add-broker", id=2)
    until(lambda: broker_state(cluster, 2) == "running")
