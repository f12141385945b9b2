"""A broker's session: watches and identity outlive a change of connection, not of session."""

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from cluster.coordinator.registry.client.kazoo_session import KazooSession
from cluster.coordinator.registry.client.registry_access import RegistryAccess
from cluster.coordinator.registry.client.session_close import close_session
from cluster.model.errors import UserError
from tests.integration.registry_process import DEADLINE_SECONDS, RegistryProcess, wait_until


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry") as process:
        yield process


def watcher(session: Any, callback: Callable[[], object]) -> Any:
    """A watch function for one call of the session's client."""
    return session.watch(callback)


class Owner:
    """A session, and what it posted to its loop."""

    def __init__(self, registry: RegistryProcess, file: Path, **options: Any) -> None:
        self.posted: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.told: list[str] = []
        self.session: Any = KazooSession(
            f"127.0.0.1:{registry.port}/some/place",
            3_000,
            file,
            lambda callback: self.posted.put(callback()),
            **options,
        )
        self.session.follow_session(
            lambda: self.told.append("lost"), lambda: self.told.append("begun")
        )
        self.session.connect(5_000)


@pytest.fixture
def owner(registry: RegistryProcess, tmp_path: Path) -> Iterator[Owner]:
    one = Owner(
        registry,
        tmp_path / "a.session",
        access=RegistryAccess("digest", "a", "b"),
        protects_znodes=True,
    )
    yield one
    one.session.close(2_000)


def test_watches_and_identity_outlive_the_registry(registry: RegistryProcess, owner: Owner) -> None:
    session = owner.session
    session.call(lambda _: session.client.create("/a", b""))
    session.call(lambda _: session.client.create("/b", b""))
    for path in ("/a", "/quiet"):
        told = watcher(session, lambda path=path: owner.told.append(path))
        session.call(lambda _, path=path, told=told: session.client.exists(path, watch=told))
    told = watcher(session, lambda: owner.told.append("children"))
    session.call(lambda _: session.client.get_children("/b", watch=told))
    before = session.session_id
    registry.kill()
    registry.start()
    other = registry.client(auth="a:b")
    with pytest.raises(NoAuthError):
        registry.client().get("/some/place/a")
    other.set("/some/place/a", b"changed, perhaps before the owner is back")
    wait_until(lambda: "/a" in owner.told, "the first watch")
    other.create("/some/place/b/c", b"")
    wait_until(lambda: "children" in owner.told, "the second watch")
    other.set("/some/place/a", b"again")
    assert session.call(lambda _: session.client.get("/a")[0]) == b"again"
    assert owner.told.count("/a") == 1, "once"
    assert session.session_id == before


def test_the_owner_is_notified_of_a_new_session(
    registry: RegistryProcess, owner: Owner, tmp_path: Path
) -> None:
    session_id, password = owner.session.call(lambda _: owner.session.client.client_id)
    told = watcher(owner.session, lambda: owner.told.append("watch"))
    owner.session.call(lambda _: owner.session.client.exists("/a", watch=told))
    assert close_session("127.0.0.1", registry.port, session_id, password, 2_000)
    wait_until(lambda: owner.told == ["lost", "begun"], "the next session")
    assert owner.session.session_id != session_id
    assert hex(owner.session.session_id)
    assert str(owner.session.session_id) in (tmp_path / "a.session").read_text()
    owner.session.call(lambda _: owner.session.client.create("/a", b""))
    assert owner.told == ["lost", "begun"], "the old watch ended with its session"


def test_the_owner_is_notified_of_a_new_session_when_the_disk_is_full(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    """Else the broker would never register again."""
    directory = tmp_path / "gone"
    directory.mkdir()
    owner = Owner(registry, directory / "a.session")
    session_id, password = owner.session.call(lambda _: owner.session.client.client_id)
    (directory / "a.session").unlink()
    directory.rmdir()
    assert close_session("127.0.0.1", registry.port, session_id, password, 2_000)
    wait_until(lambda: owner.told == ["lost", "begun"], "the next session")
    owner.session.close(2_000)


def test_session_reports_a_missing_registry(tmp_path: Path) -> None:
    session = KazooSession("127.0.0.1:1", 1_000, tmp_path / "a.session", lambda _: None)
    with pytest.raises(UserError, match=r"no answer from the registry at 127\.0\.0\.1:1"):
        session.connect(200)


def test_calls_come_back_through_the_loop(registry: RegistryProcess, owner: Owner) -> None:
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()
    for path in ("/", "/none"):
        owner.session.submit(
            lambda _, path=path: owner.session.client.get(path)[0], answers.put, answers.put
        )
    assert answers.get(timeout=DEADLINE_SECONDS) == b""
    assert type(answers.get(timeout=DEADLINE_SECONDS)).__name__ == "NoNodeError"
