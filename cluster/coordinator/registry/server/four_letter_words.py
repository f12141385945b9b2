"""The answers to four-letter words, in the layout of ZooKeeper 3.8. Pure."""

import os
import platform
from dataclasses import dataclass

VERSION_TEXT = "3.8.0-milena"
"""ZooKeeper's version, which kazoo and monitoring tools parse, and the name of this server."""


@dataclass(frozen=True, slots=True)
class RegistryFigures:
    """The figures that the words report; latencies in ms from receipt of a request to its reply."""

    clients: tuple[str, ...]
    """One line per connection."""
    latency_min_ms: int
    latency_average_ms: float
    latency_max_ms: int
    received_count: int
    sent_count: int
    zxid: int
    node_count: int
    watch_count: int
    ephemeral_count: int
    data_bytes: int
    files_bytes: int
    session_count: int
    uptime_ms: int
    client_port: int
    """The port without TLS, or -1; `secure_client_port` is then the other one."""
    secure_client_port: int
    data_dir: str
    tick_time_ms: int
    max_client_connections: int
    listen_backlog: int


def answer(word: bytes, figures: RegistryFigures) -> str:
    """The answer to one of `framing.FOUR_LETTER_WORDS`."""
    match word:
        case b"ruok":
            return "imok"
        case b"isro":
            return "rw"
        case b"srvr":
            return _srvr(figures)
        case b"stat":
            return _stat(figures)
        case b"mntr":
            return _mntr(figures)
        case b"envi":
            return _envi()
        case b"crst":
            return "Connection stats reset.\n"
        case b"srst":
            return "Server stats reset.\n"
        case b"dirs":
            size = figures.files_bytes
            return f"datadir_size: {size}\nlogdir_size: {size}\n"
        case _:
            return _conf(figures)


def refusal(word: bytes) -> str:
    """The answer to a word that is not enabled (ZooKeeper: `NopCommand`)."""
    return f"{word.decode()} is not executed because it is not in the whitelist.\n"


def _summary(figures: RegistryFigures) -> list[str]:
    average = round(figures.latency_average_ms, 4)
    latency = f"{figures.latency_min_ms}/{average}/{figures.latency_max_ms}"
    return [
        f"Latency min/avg/max: {latency}",
        f"Received: {figures.received_count}",
        f"Sent: {figures.sent_count}",
        f"Connections: {len(figures.clients)}",
        "Outstanding: 0",
        f"Zxid: {figures.zxid:#x}",
        "Mode: standalone",
        f"Node count: {figures.node_count}",
    ]


def _lines(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _srvr(figures: RegistryFigures) -> str:
    return _lines([f"Zookeeper version: {VERSION_TEXT}", *_summary(figures)])


def _stat(figures: RegistryFigures) -> str:
    version = f"Zookeeper version: {VERSION_TEXT}"
    return _lines([version, "Clients:", *figures.clients, "", *_summary(figures)])


def _envi() -> str:
    """The runtime's properties under the names that tools look for."""
    system = os.uname()
    return _lines(
        [
            "Environment:",
            f"zookeeper.version={VERSION_TEXT}",
            f"host.name={system.nodename}",
            f"python.version={platform.python_version()}",
            f"os.name={system.sysname}",
            f"os.arch={system.machine}",
            f"os.version={system.release}",
        ]
    )


def _mntr(figures: RegistryFigures) -> str:
    facts: dict[str, object] = {
        "version": VERSION_TEXT,
        "server_state": "standalone",
        "ephemerals_count": figures.ephemeral_count,
        "num_alive_connections": len(figures.clients),
        "avg_latency": round(figures.latency_average_ms, 4),
        "outstanding_requests": 0,
        "znode_count": figures.node_count,
        "global_sessions": figures.session_count,
        "packets_sent": figures.sent_count,
        "packets_received": figures.received_count,
        "watch_count": figures.watch_count,
        "min_latency": figures.latency_min_ms,
        "approximate_data_size": figures.data_bytes,
        "local_sessions": 0,
        "uptime": figures.uptime_ms,
        "max_latency": figures.latency_max_ms,
    }
    return _lines([f"zk_{name}\t{value}" for name, value in facts.items()])


def _conf(figures: RegistryFigures) -> str:
    facts: dict[str, object] = {
        "clientPort": figures.client_port,
        "secureClientPort": figures.secure_client_port,
        "dataDir": figures.data_dir,
        "dataDirSize": figures.files_bytes,
        "dataLogDir": figures.data_dir,
        "dataLogSize": figures.files_bytes,
        "tickTime": figures.tick_time_ms,
        "maxClientCnxns": figures.max_client_connections,
        "minSessionTimeout": 2 * figures.tick_time_ms,
        "maxSessionTimeout": 20 * figures.tick_time_ms,
        "clientPortListenBacklog": figures.listen_backlog,
        "serverId": 0,
    }
    return _lines([f"{name}={value}" for name, value in facts.items()])
