"""Clusters of which one broker differs from the others, and a network namespace for it.

The settings of a data directory are for every broker. The command that `odd_program` makes is the
command line, but gives the last of three brokers its own settings, and its own network.
"""

import asyncio
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cluster.datadir.state_file import KnownBroker
from cluster.launch import plan
from cluster.supervisor.plan import ChildSpec

ODD: Final = 2
"""The broker that differs."""
_NEW_NETWORK: Final = 0x40000000
"""CLONE_NEWNET."""
_NAMESPACES: Final = Path("/run/netns")
_NETWORKS: Final = 100
_ROOT: Final = Path(__file__).resolve().parents[2]


def odd_program(directory: Path, own: Mapping[str, str], namespace: str = "") -> Path:
    """A command line that gives the odd broker these settings, and a named network namespace.

    `{port}` in a setting stands for the port of its listener.
    """
    path = directory / "milena"
    run = (
        f"import sys; sys.path.insert(0, {str(_ROOT)!r});"
        " from tests.support.one_odd_broker import main; sys.exit(main())"
    )
    given = json.dumps([dict(own), namespace])
    path.write_text(f'#!/bin/sh\nODD_BROKER=\'{given}\' exec {sys.executable} -P -c "{run}" "$@"\n')
    path.chmod(0o755)
    return path


def main() -> int:
    """The command line, as `odd_program` changes it."""
    own, namespace = json.loads(os.environ["ODD_BROKER"])
    changed: Any = plan  # the names that it uses, which are not its own
    settings_of, child_of = changed.broker_settings, changed.broker_child

    def settings(texts: Mapping[str, str], *places: Any) -> Any:
        if texts.get("broker.id") == str(ODD):
            port = texts["listeners"].rpartition(":")[2]
            texts = {**texts, **{key: text.format(port=port) for key, text in own.items()}}
        return settings_of(texts, *places)

    def child(broker: KnownBroker, *arguments: Any) -> ChildSpec:
        spec: ChildSpec = child_of(broker, *arguments)
        if broker.id != ODD or not namespace:
            return spec

        def run(reports: Any) -> None:
            _enter(namespace)
            spec.run(reports)

        return replace(spec, run=run)

    changed.broker_settings, changed.broker_child = settings, child
    from cluster.tools.main import main as command_line

    return command_line()


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    place = os.open(_NAMESPACES / namespace, os.O_RDONLY)
    if libc.setns(place, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
    os.close(place)


class RegistryThere:
    """A way from the other network to the registry, which listens on this one's loopback only."""

    def __init__(self, namespace: str, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        with ThreadPoolExecutor(1) as pool:  # its one thread enters the network, and ends
            self._listening = pool.submit(self._listen_in, namespace).result()
        self._thread = threading.Thread(target=self._run)

    def _listen_in(self, namespace: str) -> socket.socket:
        _enter(namespace)
        return socket.create_server(("127.0.0.1", self._port))

    def _run(self) -> None:
        self._loop.run_until_complete(asyncio.start_server(self._carry, sock=self._listening))
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _carry(self, came: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            back.close()
            return
        await asyncio.gather(_copy(came, requests), _copy(answers, back))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listening.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while part := await source.read(1 << 16):
            target.write(part)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


@dataclass(frozen=True, slots=True)
class OtherHost:
    """A network namespace, and the addresses by which it and this one reach each other."""

    namespace: str
    here: str
    there: str


@contextmanager
def other_host() -> Iterator[OtherHost | None]:
    """A second network on this machine, connected to the first; None where that is impossible."""
    number = next(filter(_claims, range(_NETWORKS)), None)
    if number is None:
        yield None
        return
    name, link = f"milena-{number}-{os.getpid()}", f"mil{number}"
    host = OtherHost(name, f"10.246.{number}.1", f"10.246.{number}.2")
    commands = [
        f"netns add {name}",
        f"link set {link}b netns {name}",
        f"address add {host.here}/30 dev {link}a",
        f"link set {link}a up",
        f"-netns {name} address add {host.there}/30 dev {link}b",
        f"-netns {name} link set {link}b up",
        f"-netns {name} link set lo up",
    ]
    try:
        yield host if all(map(_ip, commands)) else None
    finally:
        _ip(f"link delete {link}a")
        _ip(f"netns delete {name}")


def _claims(number: int) -> bool:
    """Whether a network was free; the name of its link keeps it from other runs on this machine."""
    return _ip(f"link add mil{number}a type veth peer name mil{number}b")


def _ip(arguments: str) -> bool:
    try:
        return subprocess.run(["ip", *arguments.split()], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
