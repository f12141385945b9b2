"""Chooses and checks TCP ports before forking, so that conflicts are reported early."""

import errno
import socket
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from random import SystemRandom
from typing import Final, NamedTuple

from cluster.model.addresses import LOOPBACK
from cluster.model.errors import UserError
from cluster.runtime.whole_numbers import PORT_MAX

_OWN_PORTS: Final = range(15_000, 32_000)
_ATTEMPTS: Final = 100


class WantedPort(NamedTuple):
    """A port that a child will bind, 0 for any; `flag` is the option that sets it."""

    owner: str
    host: str
    port: int
    flag: str
    is_by_default: bool = False
    """Nobody asked for this port: where it is taken, any other one will do."""


class PortTaken(UserError):
    """Another process listens on a port that is wanted."""

    def __init__(self, want: WantedPort) -> None:
        super().__init__(
            f"port {want.port} ({want.owner}) is already in use; choose another with {want.flag}"
        )
        self.want = want


def choose_ports(wanted: Iterable[WantedPort]) -> list[int]:
    """The free ports, in order. Raises PortTaken, or UserError for one that cannot be had.

    All ports stay bound until the last one is chosen, so that no two are the same.
    """
    chosen: list[int] = []
    with ExitStack() as held:
        for want in wanted:
            bound = held.enter_context(_bind_some(want))
            chosen.append(bound.getsockname()[1])
    return chosen


def is_taken(host: str, port: int) -> bool:
    """Whether another process listens on that port now."""
    try:
        _listening(host, port).close()
    except OSError as problem:
        return problem.errno == errno.EADDRINUSE
    return False


def _bind_some(want: WantedPort) -> socket.socket:
    if want.is_by_default:
        try:
            return _listening(want.host, want.port)
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                return _bind(want._replace(port=0))
    return _bind(want)


def _bind(want: WantedPort) -> socket.socket:
    if want.port > PORT_MAX:
        raise UserError(
            f"port {want.port} ({want.owner}) is too high: choose a lower range with {want.flag}"
        )
    try:
        return _listening(want.host, want.port) if want.port else _listening_anywhere(want.host)
    except OSError as problem:
        if isinstance(problem, socket.gaierror) or problem.errno == errno.EADDRNOTAVAIL:
            host_flag = f"{want.flag.removesuffix('port')}host"
            raise UserError(
                f"{want.host} is not an address of this machine: use {host_flag}"
            ) from None
        if isinstance(problem, PermissionError):
            raise UserError(
                f"port {want.port} ({want.owner}) needs privileges: choose another with {want.flag}"
            ) from None
        raise PortTaken(want) from None


def _listening(host: str, port: int) -> socket.socket:
    candidate = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        candidate.bind((host, port))
        candidate.listen(1)  # two sockets may bind one port but not listen on it
    except OSError:
        candidate.close()
        raise
    return candidate


def _listening_anywhere(host: str) -> socket.socket:
    """On a free port below the kernel's range for outgoing connections, as `free_ports`."""
    dice = SystemRandom()
    for _ in range(_ATTEMPTS):
        try:
            return _listening(host, dice.choice(_OWN_PORTS))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise
    return _listening(host, 0)


def free_ports(count: int) -> int:
    """The first of `count` consecutive free ports. Raises UserError.

    They lie below the kernel's range for outgoing connections: with a port from that range, a
    client that keeps connecting to a dead broker may be given the broker's own port.
    """
    dice = SystemRandom()
    for _ in range(_ATTEMPTS):
        first = dice.choice(_OWN_PORTS[: -count or None])
        with ExitStack() as held, suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(_listening(LOOPBACK, port))
            return first
    raise UserError(f"no {count} free ports in a row in {_OWN_PORTS}")
