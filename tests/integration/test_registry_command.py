"""`bin/cluster registry`, as a person uses it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.security import CREATOR_ALL_ACL

from cluster.tools.main import main
from tests.integration.registry_process import RegistryProcess
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry") as process:
        yield process


class Shell:
    def __init__(self, port: int, capsys: pytest.CaptureFixture[str]) -> None:
        self._server = f"127.0.0.1:{port}"
        self._capsys = capsys

    def __call__(self, *words: str, server: str = "", status: int = 0) -> str:
        """What the command prints, on stderr if it fails."""
        assert main(["registry", "--server", self._server + server, *words]) == status
        out, err = self._capsys.readouterr()
        return err if status else out


@pytest.fixture
def shell(registry: RegistryProcess, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(registry.port, capsys)


def test_znodes_are_made_shown_changed_and_deleted(shell: Shell) -> None:
    assert shell("create", "/a", "one") == "Created /a\n"
    assert shell("create", "-s", "/a/n-") == "Created /a/n-0000000000\n"
    assert shell("ls", "/") == "[a, zookeeper]\n"
    assert shell("ls", "-R", "/a") == "/a\n/a/n-0000000000\n"
    assert shell("get", "/a") == "one\n"
    assert shell("set", "/a", "two") == ""
    assert shell("set", "-v", "7", "/a", "x", status=1) == "error: version No is not valid : /a\n"
    shown = shell("get", "-s", "/a")
    assert re.fullmatch(
        r"two\ncZxid = 0x\w+\nctime = [^\n]+\nmZxid = 0x\w+\nmtime = [^\n]+\npZxid = 0x\w+\n"
        r"cversion = 1\ndataVersion = 1\naclVersion = 0\nephemeralOwner = 0x0\n"
        r"dataLength = 3\nnumChildren = 1\n",
        shown,
    )
    assert shell("stat", "/a") == shown.partition("\n")[2]
    assert shell("delete", "/a", status=1) == "error: Node not empty: /a\n"
    assert shell("get", "/n-0000000000", server="/a") == "\n", "a chroot"
    wrong = "error: --version does not go with --recursive"
    assert shell("delete", "-R", "-v", "1", "/a", status=2).startswith(wrong)
    assert shell("delete", "-R", "/a") == ""
    assert shell("delete", "-R", "/a", status=1) == "error: Node does not exist: /a\n"
    for words in (["get"], ["ls"], ["stat"], ["delete"]):
        assert shell(*words, "/a", status=1) == "error: Node does not exist: /a\n"


def test_identity_gives_access_to_protected_znodes(registry: RegistryProcess, shell: Shell) -> None:
    owner = registry.client(auth="alice:secret")
    acl = CREATOR_ALL_ACL
    owner.create("/own", b"1", acl=acl)
    assert shell("get", "/own", status=1) == "error: Insufficient permission : /own\n"
    assert shell("--auth", "digest:alice:secret", "get", "/own") == "1\n"


def test_registry_command_reports_a_missing_registry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.tools.registry.CONNECT_TIMEOUT_S", 0.2)
    assert main(["registry", "--server", "127.0.0.1:1", "ls", "/"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: no registry answers at 127.0.0.1:1")
    assert said.count("\n") == 1
    assert main(["registry", "--data-dir", str(tmp_path), "ls", "/"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@contextmanager
def watching(registry: RegistryProcess, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`registry watch` in a process of its own."""
    command = [sys.executable, "-m", "cluster", "registry", "--server"]
    command += [f"127.0.0.1:{registry.port}", "watch", *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # does nothing to one that has ended


def until_watches(client: KazooClient, count: int) -> None:
    def are_left() -> bool:
        with contextlib.suppress(ConnectionLoss, OSError):
            return f"zk_watch_count\t{count}\n" in client.command(b"mntr")
        return False

    wait_until(are_left, f"{count} watches")


def events_of(process: subprocess.Popen[str]) -> list[tuple[str, str]]:
    assert process.stdout is not None
    assert process.wait(60) == 0
    return re.findall(r"type:(\w+) path:(\S+)", process.stdout.read())


@pytest.mark.parametrize("is_recursive", [False, True])
def test_watch_prints_what_happens(registry: RegistryProcess, is_recursive: bool) -> None:
    client = registry.client()
    options = ["--recursive"] if is_recursive else []
    with watching(registry, "/a", *options, "--count", "4") as process:
        until_watches(client, 1)
        client.create("/a", b"")
        until_watches(client, 2)
        client.create("/a/b", b"")
        until_watches(client, 4 if is_recursive else 2)
        client.set("/a/b" if is_recursive else "/a", b"1")
        until_watches(client, 4 if is_recursive else 2)
        client.delete("/a/b")
        events = events_of(process)
    if is_recursive:
        expected = [("NodeCreated", "/a"), ("NodeCreated", "/a/b"), ("NodeDataChanged", "/a/b")]
        expected += [("NodeDeleted", "/a/b")]
    else:
        expected = [("NodeCreated", "/a"), ("NodeChildrenChanged", "/a")]
        expected += [("NodeDataChanged", "/a"), ("NodeChildrenChanged", "/a")]
    assert events == expected


def test_watch_goes_on_after_a_lost_connection_and_tells_what_it_missed(
    registry: RegistryProcess,
) -> None:
    client = registry.client()
    client.create("/a", b"")
    with watching(registry, "/a", "--recursive", "--count", "4") as process:
        until_watches(client, 2)
        process.send_signal(signal.SIGSTOP)
        registry.kill()
        registry.start()
        client.retry(client.set, "/a", b"1")
        process.send_signal(signal.SIGCONT)
        until_watches(client, 2)
        client.create("/a/b", b"")
        until_watches(client, 4)
        client.delete("/a", recursive=True)
        events = events_of(process)
    assert events[:2] == [("NodeDataChanged", "/a"), ("NodeCreated", "/a/b")]
    assert set(events[2:]) == {("NodeDeleted", "/a"), ("NodeDeleted", "/a/b")}


def test_watch_skips_a_child_that_it_may_not_read(registry: RegistryProcess) -> None:
    client = registry.client(auth="alice:secret")
    client.create("/a", b"")
    with watching(registry, "/a", "--recursive", "--count", "1") as process:
        until_watches(client, 2)
        client.create("/a/closed", b"", acl=CREATOR_ALL_ACL)
        client.create("/a/open", b"")
        assert events_of(process) == [("NodeCreated", "/a/open")]
