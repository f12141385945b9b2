"""A broker's session with the registry: kazoo on a thread of its own, results on the broker's loop.

Operations of the store run one after another on the registry thread. So a sequence of reads and
writes is ordinary code, and nothing blocks the broker's loop. The built-in registry and a ZooKeeper
ensemble are used in the same way.
"""

import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NotReadOnlyCallError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.security import CREATOR_ALL_ACL

from cluster.coordinator.cluster_store import STORE_FULL, ClusterStore, StoreFull
from cluster.coordinator.registry.client.kazoo_setup import kazoo_arguments, start_client
from cluster.coordinator.registry.client.kazoo_store import kazoo_store
from cluster.coordinator.registry.client.kazoo_watches import LastingWatches
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.model.errors import UserError

log = logging.getLogger(__name__)

_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "max_jitter": 0.5, "max_delay": 0.5}
"""In seconds. By default kazoo waits up to a minute, longer than sessions last."""
T = TypeVar("T")
Operation = Callable[[ClusterStore], T]


class KazooSession:
    """One session with the registry, for the life of a broker process.

    `post` runs a callable on the broker's loop; every callback given here is run through it.
    `client` and `watch` are public for the tests of this adapter.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        session_file: Path,
        post: Callable[[Callable[[], None]], None],
        *,
        access: RegistryAccess = NOBODY,
        protects_znodes: bool = False,
    ) -> None:
        """`access` authenticates every connection.

        `protects_znodes`: only this identity may read or change what is created.
        """
        self._hosts = hosts
        self._session_file = session_file
        self._post = post
        servers, slash, chroot = hosts.partition("/")
        self._chroot = slash + chroot.rstrip("/") if chroot else ""
        self.client = KazooClient(
            hosts=servers,
            timeout=session_timeout_ms / 1000,
            connection_retry=_RECONNECT,
            default_acl=CREATOR_ALL_ACL if protects_znodes else None,
            **kazoo_arguments(access),
        )
        self._watches = LastingWatches(self.client)
        self._store = kazoo_store(self.client, self.watch)
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="registry", daemon=True)
        self._on_lost: Callable[[], None] = _ignore
        self._on_begun: Callable[[], None] = _ignore
        self._session_id: int | None = None

    def follow_session(self, on_lost: Callable[[], None], on_begun: Callable[[], None]) -> None:
        """Have `on_lost` called when the session expires, and `on_begun` when a new one replaces
        it, in which ephemeral nodes have to be created again.
        """
        self._on_lost, self._on_begun = on_lost, on_begun

    def connect(self, timeout_ms: int) -> None:
        """Begin the session; blocks. Raises UserError when no registry answers in time."""
        self.client.add_listener(self._on_state)
        try:
            start_client(self.client, timeout_ms / 1000)
        except KazooTimeoutError as error:
            raise UserError(
                f"no answer from the registry at {self._hosts} within {timeout_ms} ms"
                " (zookeeper.connect)"
            ) from error
        except AuthFailedError as error:
            raise UserError(
                f"the registry at {self._hosts} does not take milena.registry.auth"
            ) from error
        self._make_chroot()
        self._remember_session()
        self._thread.start()

    def _make_chroot(self) -> None:
        """Create the path at the end of `zookeeper.connect`, which is the client's root from here
        on.
        """
        if self._chroot:
            self.client.ensure_path(self._chroot)
            self.client.chroot = self._chroot

    @property
    def session_id(self) -> int:
        """The id of the present session, which owns our ephemeral nodes."""
        return self._session_id or 0

    def call(self, operation: Operation[T]) -> T:
        """Run `operation(store)` on the caller's thread; blocks, so only for the start.

        Raises UserError when the disk of the registry is full.
        """
        try:
            return operation(self._store)
        except NotReadOnlyCallError:
            raise UserError(STORE_FULL) from None

    def submit(
        self,
        operation: Operation[T],
        on_done: Callable[[T], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Run `operation(store)` on the registry thread, then a callback on the loop."""

        def run() -> None:
            try:
                result = operation(self._store)
            except NotReadOnlyCallError:
                self._post(lambda: on_failed(StoreFull(STORE_FULL)))
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller decides
                failure = error
                self._post(lambda: on_failed(failure))
            else:
                self._post(lambda: on_done(result))

        self._calls.put(run)

    def close(self, timeout_ms: int) -> None:
        """End the session, which removes its ephemeral nodes, and stop the threads; blocks."""
        self._calls.put(None)
        if self._thread.is_alive():  # it is started by `connect`
            self._thread.join(timeout_ms / 1000)
        self.client.remove_listener(self._on_state)
        self.client.stop()
        self.client.close()
        self._session_file.unlink(missing_ok=True)

    def watch(self, callback: Callable[[], None]) -> Callable[[WatchedEvent], None]:
        """A watch function that runs `callback` on the loop once. It ends with its session."""
        return self._watches.mark(lambda _: self._post(callback))

    def _work(self) -> None:
        while (run := self._calls.get()) is not None:
            run()

    def _on_state(self, state: str) -> None:
        """Runs on kazoo's connection thread: must neither block nor call the registry."""
        if state == KazooState.SUSPENDED:
            self._watches.on_suspended()
        elif state == KazooState.LOST:
            self._watches.on_lost()
            self._post(lambda: self._on_lost())
        elif state == KazooState.CONNECTED and self._session_id is not None:
            client_id = self.client.client_id
            if client_id is not None and client_id[0] != self._session_id:
                self._remember_session()
                self._post(lambda: self._on_begun())
            else:
                self._watches.on_connected()

    def _remember_session(self) -> None:
        """Write id and password to a file (mode 0600) by which the supervisor ends the session if
        we die.

        Without it the registry notices our death only when the session times out. A full disk does
        not prevent the registration.
        """
        session_id, password = self.client.client_id
        self._session_id = session_id
        try:
            self._write_session_file(session_id, password)
        except OSError as error:
            log.warning("cannot write %s: %s", self._session_file, error)

    def _write_session_file(self, session_id: int, password: bytes) -> None:
        content = json.dumps({"session_id": session_id, "password": password.hex()})
        temporary = self._session_file.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
        temporary.replace(self._session_file)


def _ignore(*_arguments: Any) -> None:
    return
