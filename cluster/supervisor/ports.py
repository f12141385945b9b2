"""Chooses and checks TCP ports before anything is forked, so that conflicts are reported early."""

import errno
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from typing import NamedTuple

from cluster.model.errors import UserError


class WantedPort(NamedTuple):
    """A port that a child will bind, 0 for any; `flag` is the option that changes it."""

    owner: str
    host: str
    port: int
    flag: str


def choose_ports(wanted: Iterable[WantedPort]) -> list[int]:
    """The port numbers, in order, each free at this moment. Raises UserError naming a taken one.

    Each stays bound until the last is chosen, so that no two are the same.
    """
    chosen: list[int] = []
    with ExitStack() as held:
        for want in wanted:
            bound = held.enter_context(_bind(want))
            chosen.append(bound.getsockname()[1])
    return chosen


def _bind(want: WantedPort) -> socket.socket:
    if want.port > 65_535:
        raise UserError(
            f"port {want.port} ({want.owner}) is too high: choose a lower range with {want.flag}"
        )
    family = socket.AF_INET6 if ":" in want.host else socket.AF_INET
    candidate = socket.socket(family, socket.SOCK_STREAM)
    try:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        candidate.bind((want.host, want.port))
        candidate.listen(1)  # two sockets may bind one port, but not listen on it
    except OSError as problem:
        candidate.close()
        if isinstance(problem, socket.gaierror) or problem.errno == errno.EADDRNOTAVAIL:
            raise UserError(f"{want.host} is not an address of this machine: use --host") from None
        if isinstance(problem, PermissionError):
            raise UserError(
                f"port {want.port} ({want.owner}) needs privileges: choose another with {want.flag}"
            ) from None
        raise UserError(
            f"port {want.port} ({want.owner}) is already in use; choose another with {want.flag}"
        ) from None
    return candidate
