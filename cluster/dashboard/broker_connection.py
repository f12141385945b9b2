"""Connects the dashboard to brokers through the files of the data directory, as commands do."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cluster.client.security import UNPROTECTED, Address, ClientSecurity, Servers
from cluster.client.security_properties import KEYS, client_security
from cluster.client.socket_client import SocketClient
from cluster.config.properties_file import read_properties_file
from cluster.datadir.paths import DataDir

CLIENT_ID: Final = "milena-dashboard"
TIMEOUT_S: Final = 3.0
"""For a connection and for a response: a paused broker accepts connections and does not respond."""
CHANGE_TIMEOUT_S: Final = 30.0
"""Longer than it takes to replace a dead controller."""


def security_of(files: DataDir) -> ClientSecurity:
    """The security of a secure cluster's own tools; none for other clusters. Raises UserError."""
    path = files.tools_properties
    if not path.exists():
        return UNPROTECTED
    texts = read_properties_file(path).texts
    return UNPROTECTED if KEYS.isdisjoint(texts) else client_security(texts)


def addresses_of(state: Mapping[str, Any], alive: Iterable[int]) -> dict[int, Address]:
    """The address of each broker in the supervisor's answer, live brokers first."""
    first = frozenset(alive)
    ordered = sorted(state["brokers"], key=lambda each: (each["id"] not in first, each["id"]))
    return {each["id"]: (each["host"], each["port"]) for each in ordered}


def connect(
    files: DataDir, addresses: Iterable[Address], timeout_s: float = TIMEOUT_S
) -> SocketClient:
    """Connect to the first broker that responds. Raises UserError."""
    servers = Servers(list(addresses), security_of(files))
    return SocketClient.connect(servers, CLIENT_ID, timeout_s)
