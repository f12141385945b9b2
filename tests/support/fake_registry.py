"""A registry in memory: the part of kazoo's client that brokers use, and sessions of it.

`tests/unit/coordinator/registry/client/test_topic_records.py` runs the same tests on it and on the
real one. A `FakeSession` stands in for `KazooSession`: what is submitted waits until a test, or a
simulation, has it carried out.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyCallError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from cluster.coordinator.cluster_store import STORE_FULL, ClusterStore, StoreFull
from cluster.coordinator.registry.client.kazoo_store import kazoo_store

Watch = Callable[[WatchedEvent], None]


class Stat(NamedTuple):
    """What kazoo's ZnodeStat says, as far as brokers ask."""

    version: int
    czxid: int
    mzxid: int
    ephemeralOwner: int
    ctime: int = 1 << 62
    """In the future: nothing here is ever too old."""


@dataclass(slots=True)
class _Node:
    document: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    created_count: int = 0

    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.mzxid, self.owner)


class FakeTree:
    """What all sessions see."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {"": _Node(b"", 0, 0)}
        self.data_watches: dict[str, list[tuple[int, Watch]]] = {}
        self.child_watches: dict[str, list[tuple[int, Watch]]] = {}
        self.is_full = False
        """Whether the disk is full: nothing is created or changed."""
        self._zxid = 0
        self._session_id = 0

    def begin_session(self) -> int:
        self._session_id += 1
        return self._session_id

    def end_session(self, session_id: int) -> None:
        """Its ephemeral nodes and its watches go."""
        for watches in (self.data_watches, self.child_watches):
            for path, pairs in list(watches.items()):
                watches[path] = [pair for pair in pairs if pair[0] != session_id]
        for path, node in list(self.nodes.items()):
            if node.owner == session_id:
                self.delete(path)

    def get(self, path: str) -> _Node:
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError
        return node

    def children(self, path: str) -> list[str]:
        self.get(path)
        prefix = path + "/"
        return [
            p[len(prefix) :]
            for p in self.nodes
            if p.startswith(prefix) and "/" not in p[len(prefix) :]
        ]

    def create(self, path: str, document: bytes, owner: int, sequence: bool = False) -> str:
        self._check_room()
        parent_path, _, _ = path.rpartition("/")
        parent = self.get(parent_path)
        if sequence:
            path = f"{path}{parent.created_count:010d}"
        if path in self.nodes:
            raise NodeExistsError
        parent.created_count += 1
        self._zxid += 1
        self.nodes[path] = _Node(document, self._zxid, self._zxid, owner)
        self.fire(self.data_watches, path, EventType.CREATED)
        self.fire(self.child_watches, parent_path, EventType.CHILD)
        return path

    def _check_room(self) -> None:
        if self.is_full:
            raise NotReadOnlyCallError

    def set(self, path: str, document: bytes, version: int) -> _Node:
        self._check_room()
        node = self.get(path)
        if version not in (-1, node.version):
            raise BadVersionError
        self._zxid += 1
        node.document = document
        node.mzxid = self._zxid
        node.version += 1
        self.fire(self.data_watches, path, EventType.CHANGED)
        return node

    def delete(self, path: str, version: int = -1) -> None:
        node = self.get(path)
        if version not in (-1, node.version):
            raise BadVersionError
        if self.children(path):
            raise NotEmptyError
        self._zxid += 1
        del self.nodes[path]
        self.fire(self.data_watches, path, EventType.DELETED)
        self.fire(self.child_watches, path.rpartition("/")[0], EventType.CHILD)

    def check(self, path: str, version: int) -> None:
        if version not in (-1, self.get(path).version):
            raise BadVersionError

    def fire(self, watches: dict[str, list[tuple[int, Watch]]], path: str, kind: str) -> None:
        for _, watch in watches.pop(path, []):
            watch(WatchedEvent(kind, KeeperState.CONNECTED, path))


class _Answer:
    def __init__(self, call: Callable[[], Any]) -> None:
        try:
            self._value, self._error = call(), None
        except KazooException as error:
            self._value, self._error = None, error

    def get(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


class FakeClient:
    """kazoo's client, of one session."""

    def __init__(self, tree: FakeTree) -> None:
        self.tree = tree
        self.client_id: tuple[int, bytes] = (tree.begin_session(), b"")
        self.is_expired = False

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        self.check_session()
        if watch is not None:
            self.tree.data_watches.setdefault(path, []).append((self.client_id[0], watch))
        node = self.tree.nodes.get(path)
        return None if node is None else node.stat()

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        self.check_session()
        node = self.tree.get(path)
        if watch is not None:
            self.tree.data_watches.setdefault(path, []).append((self.client_id[0], watch))
        return node.document, node.stat()

    def get_async(self, path: str) -> _Answer:
        return _Answer(lambda: self.get(path))

    def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        self.check_session()
        names = self.tree.children(path)
        if watch is not None:
            self.tree.child_watches.setdefault(path, []).append((self.client_id[0], watch))
        return names

    def get_children_async(self, path: str) -> _Answer:
        return _Answer(lambda: self.get_children(path))

    def ensure_path(self, path: str) -> None:
        self.check_session()
        for position, letter in enumerate(path + "/"):
            if letter == "/" and position and path[:position] not in self.tree.nodes:
                self.tree.create(path[:position], b"", 0)

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        makepath: bool = False,
        include_data: bool = False,
        sequence: bool = False,
    ) -> Any:
        self.check_session()
        if makepath:
            self.ensure_path(path.rpartition("/")[0])
        path = self.tree.create(path, value, self.client_id[0] if ephemeral else 0, sequence)
        return (path, self.tree.get(path).stat()) if include_data else path

    def set(self, path: str, value: bytes, version: int = -1) -> Stat:
        self.check_session()
        return self.tree.set(path, value, version).stat()

    def delete(self, path: str, version: int = -1) -> None:
        self.check_session()
        self.tree.delete(path, version)

    def transaction(self) -> "FakeTransaction":
        return FakeTransaction(self)

    def expire(self) -> None:
        """The registry ends the session; the client notices by every call failing."""
        if not self.is_expired:
            self.is_expired = True
            self.tree.end_session(self.client_id[0])

    def begin_again(self) -> None:
        """A new session takes the place of the expired one."""
        self.expire()
        self.client_id = (self.tree.begin_session(), b"")
        self.is_expired = False

    def check_session(self) -> None:
        if self.is_expired:
            raise SessionExpiredError


class FakeTransaction:
    """All or nothing."""

    def __init__(self, client: FakeClient) -> None:
        self._client = client
        self._steps: list[Callable[[], Any]] = []

    def create(
        self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> None:
        owner = self._client.client_id[0] if ephemeral else 0
        self._steps.append(lambda: self._client.tree.create(path, value, owner, sequence))

    def check(self, path: str, version: int) -> None:
        self._steps.append(lambda: self._client.tree.check(path, version))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        self._steps.append(lambda: self._client.tree.set(path, value, version))

    def delete(self, path: str, version: int = -1) -> None:
        self._steps.append(lambda: self._client.tree.delete(path, version))

    def commit(self) -> list[Any]:
        self._client.check_session()
        tree = self._client.tree
        saved = {path: _copy(node) for path, node in tree.nodes.items()}
        fired: list[Callable[[], None]] = []
        tree.fire = lambda *event: fired.append(lambda: FakeTree.fire(tree, *event))  # type: ignore[method-assign]
        results: list[Any] = []
        try:
            for step in self._steps:
                try:
                    results.append(step())
                except NotReadOnlyCallError:  # the registry refuses all of it
                    tree.nodes = saved
                    fired.clear()
                    raise
                except KazooException as error:
                    results = [RolledBackError()] * len(results) + [error]
                    results += [RuntimeInconsistency()] * (len(self._steps) - len(results))
                    tree.nodes = saved
                    fired.clear()
                    break
        finally:
            del tree.fire
        for fire in fired:
            fire()
        return results


def _copy(node: _Node) -> _Node:
    return replace(node)


def store_of(client: Any) -> ClusterStore:
    """The store of a client, whose watches call back at once."""
    return kazoo_store(client, lambda callback: lambda _event: callback())


class FakeSession:
    """Stands in for KazooSession. Calls run one after another when `work` is called."""

    def __init__(self, tree: FakeTree, post: Callable[[Callable[[], None]], None]) -> None:
        self.client = FakeClient(tree)
        self.store = kazoo_store(self.client, lambda callback: lambda _event: post(callback))  # type: ignore[arg-type]  # stands in
        self.pending: deque[Callable[[], None]] = deque()
        self._post = post

    @property
    def session_id(self) -> int:
        return self.client.client_id[0]

    def call(self, call: Callable[[Any], Any]) -> Any:
        return call(self.store)

    def submit(
        self,
        call: Callable[[Any], Any],
        on_done: Callable[[Any], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        def run() -> None:
            try:
                result = call(self.store)
            except NotReadOnlyCallError:
                self._post(lambda: on_failed(StoreFull(STORE_FULL)))
            except Exception as error:  # noqa: BLE001 - as the real one
                failure = error
                self._post(lambda: on_failed(failure))
            else:
                self._post(lambda: on_done(result))

        self.pending.append(run)

    def work(self, count: int = 1_000_000) -> Self:
        """Carry out what was submitted; the results are posted."""
        while self.pending and count:
            self.pending.popleft()()
            count -= 1
        return self
