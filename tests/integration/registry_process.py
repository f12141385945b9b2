"""A registry in a process of its own, for tests: started on a port the kernel chooses, killable."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient

_SCRIPT = """
import json, logging, sys
from pathlib import Path
from cluster.coordinator.registry.server.options import LoginOptions, RegistryOptions
from cluster.coordinator.registry.server.registry_process import run_registry
from cluster.runtime.tls_options import StoreSource
from cluster.runtime.tls_options import TlsOptions

logging.basicConfig(level=logging.WARNING, format="%(message)s")
directory, port, tick_time_ms, snapshot_every, max_connections, min_free_bytes = sys.argv[1:7]
logins, tls, words = sys.argv[7:]
run_registry(
    RegistryOptions(
        data_dir=Path(directory),
        port=int(port),
        tick_time_ms=int(tick_time_ms),
        snapshot_every_transactions=int(snapshot_every),
        max_client_connections=int(max_connections),
        min_free_bytes=int(min_free_bytes),
        logins=LoginOptions(**json.loads(logins)),
        four_letter_words=frozenset(words.split(",")),
        tls=None if tls == "null" else TlsOptions(
            StoreSource("keystore", "PEM", json.loads(tls)["key_store"]),
            StoreSource("truststore", "PEM", json.loads(tls)["trust_store"]),
            json.loads(tls)["client_auth"],
        ),
    ),
    lambda port: print(port, flush=True),
)
"""
DEADLINE_SECONDS = 30.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Ask again and again until the condition holds; fail after the deadline."""
    deadline = monotonic() + DEADLINE_SECONDS
    while not condition():
        assert monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}"


class RegistryProcess:
    """One data directory; processes serve it one after the other, always on the same port."""

    def __init__(
        self,
        directory: Path,
        *,
        tick_time_ms: int = 200,
        snapshot_every: int = 20_000,
        max_connections: int = 0,
        min_free_bytes: int = 0,
        logins: dict[str, Any] | None = None,
        tls: dict[str, str] | None = None,
        words: str = "*",
    ) -> None:
        """`logins`: the fields of LoginOptions. `tls`: paths of PEM files, and `client_auth`.
        `words`: the four-letter words that are answered.
        """
        numbers = [tick_time_ms, snapshot_every, max_connections, min_free_bytes]
        self._arguments = [*map(str, numbers), json.dumps(logins or {}), json.dumps(tls), words]
        self.directory = directory
        self.port = 0
        self.clients: list[KazooClient] = []
        self._process: subprocess.Popen[str] | None = None
        self.log_path = directory.with_suffix(".log")

    def start(self) -> Self:
        """Returns when clients can connect."""
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *("-c", _SCRIPT, str(self.directory), str(self.port)),
                    *self._arguments,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._end(signal.SIGTERM)
            raise AssertionError(self.log())
        self.port = int(line)
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """What all processes so far have logged."""
        return self.log_path.read_text()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM. Returns the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, signal_number: int) -> int:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdout is not None
        process.send_signal(signal_number)  # does nothing to a process that has ended
        status = process.wait(DEADLINE_SECONDS)
        process.stdout.close()
        return status

    def client(self, timeout: float = 3.0, auth: str | None = None) -> KazooClient:
        """A connected kazoo client, stopped with this registry."""
        client = KazooClient(
            f"127.0.0.1:{self.port}",
            timeout=timeout,
            connection_retry={"max_tries": -1, "delay": 0.02, "backoff": 1, "max_jitter": 0.0},
            auth_data=[("digest", auth)] if auth else None,
        )
        self.clients.append(client)
        client.start(timeout=DEADLINE_SECONDS)
        return client

    def client_of_empty_tree(self) -> KazooClient:
        """A client, after every node is gone but those of the registry itself."""
        owner = self.client()
        owner.add_auth("digest", "other:secret")  # a test may have protected something
        for name in owner.get_children("/"):
            if name != "zookeeper":
                owner.delete(f"/{name}", recursive=True)
        return self.client()

    def close_clients(self) -> None:
        """End the sessions of all clients so far; each holds some ten descriptors."""
        for client in self.clients:
            client.stop()
            client.close()
        self.clients.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close_clients()
        if self._process is not None:
            self.kill()
