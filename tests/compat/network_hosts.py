"""Hosts of one machine: network namespaces on a bridge, each with a name of its own.

Every host has two addresses on one link, so that traffic between brokers can be cut alone.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pytest

_CLONE_NEWNET = 0x40000000
_RUN = Path("/run/netns")
_NAMED = 'hostname "$0" && exec "$@"'


def require_namespaces() -> None:
    """Skip the running test where network namespaces cannot be made, and say why."""
    reason = _why_not()
    if reason is not None:
        pytest.skip(reason)


def _why_not() -> str | None:
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root of Linux may make network namespaces"
    missing = [each for each in ("ip", "nsenter", "unshare", "hostname") if not shutil.which(each)]
    if missing:
        return f"network namespaces need the command {missing[0]}"
    probe = f"mil-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    if made.returncode != 0:
        return f"no network namespaces here: {made.stderr.strip()}"
    return None


class Hosts:
    """Hosts 0, 1, ..., and a switch, at which the test's own clients are; a context manager."""

    def __init__(self, count: int) -> None:
        self._switch = f"mil{os.getpid()}-switch"
        self.names = [f"mil{os.getpid()}-{number}" for number in range(count)]
        self._began: list[subprocess.Popen[bytes]] = []

    def address(self, host: int) -> str:
        """The address that brokers use."""
        return f"10.77.0.{host + 1}"

    def other_address(self, host: int) -> str:
        """An address that `cut` does not concern."""
        return f"10.77.1.{host + 1}"

    @contextmanager
    def at_switch(self) -> Iterator[None]:
        """Let this thread, and those that it starts, use the network of the switch."""
        with Path("/proc/self/ns/net").open() as before, (_RUN / self._switch).open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def run(
        self, host: int, words: Sequence[str | Path], output: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        """Begin a process on a host."""
        name = self.names[host]
        process = subprocess.Popen(
            [
                *("nsenter", f"--net={_RUN / name}", "unshare", "--uts"),
                *("sh", "-c", _NAMED, name, *words),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        self._began.append(process)
        return process

    def unplug(self, host: int) -> None:
        """Take a host off the network; nobody is told."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "down")

    def plug(self, host: int) -> None:
        """Put it back."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "up")

    def cut(self, one: int, other: int) -> None:
        """Lose what two hosts send to each other's first address."""
        self._route("add", one, other)

    def mend(self, one: int, other: int) -> None:
        """End a `cut`."""
        self._route("del", one, other)

    def _route(self, verb: str, one: int, other: int) -> None:
        for source, target in ((one, other), (other, one)):
            _ip("-n", self.names[source], "route", verb, "blackhole", self.address(target))

    def __enter__(self) -> Self:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "set", "lo", "up")
        _ip("-n", self._switch, "link", "add", "bridge0", "type", "bridge")
        for network in (0, 1):
            address = f"10.77.{network}.254/24"
            _ip("-n", self._switch, "addr", "add", address, "dev", "bridge0")
        _ip("-n", self._switch, "link", "set", "bridge0", "up")
        for host, name in enumerate(self.names):
            _ip("netns", "add", name)
            _ip(
                *("-n", self._switch, "link", "add", f"port{host}", "type", "veth"),
                *("peer", "name", "eth0", "netns", name),
            )
            _ip("-n", self._switch, "link", "set", f"port{host}", "master", "bridge0", "up")
            for address in (self.address(host), self.other_address(host)):
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._began:
            process.kill()
            process.wait()
        for name in (*self.names, self._switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
