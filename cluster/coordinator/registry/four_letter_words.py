"""Texts that answer the four-letter words, in the layout of ZooKeeper 3.8. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

VERSION_TEXT = "3.8.0-milena"
"""The protocol level, which kazoo and monitoring read from it, and whose server this is."""


class ClientFigures(NamedTuple):
    """One connection, as `stat` lists it."""

    address: str
    received_count: int
    sent_count: int


@dataclass(frozen=True, slots=True)
class RegistryFigures:
    """Everything the words tell; latencies in ms from receipt of a request to its reply."""

    clients: tuple[ClientFigures, ...]
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
    session_count: int
    uptime_ms: int
    client_port: int
    data_dir: str
    tick_time_ms: int
    max_client_connections: int


def answer(word: bytes, figures: RegistryFigures) -> str:
    """The text for one of `framing.FOUR_LETTER_WORDS`."""
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
            return f"Environment:\nzookeeper.version={VERSION_TEXT}\n"
        case _:
            return _conf(figures)


def _summary(figures: RegistryFigures) -> list[str]:
    latency = f"{figures.latency_min_ms}/{figures.latency_average_ms:.4g}/{figures.latency_max_ms}"
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
    clients = [
        f" /{client.address}[1](queued=0,recved={client.received_count},sent={client.sent_count})"
        for client in figures.clients
    ]
    return _lines(
        [f"Zookeeper version: {VERSION_TEXT}", "Clients:", *clients, "", *_summary(figures)]
    )


def _mntr(figures: RegistryFigures) -> str:
    facts: dict[str, object] = {
        "version": VERSION_TEXT,
        "server_state": "standalone",
        "avg_latency": f"{figures.latency_average_ms:.4g}",
        "max_latency": figures.latency_max_ms,
        "min_latency": figures.latency_min_ms,
        "packets_received": figures.received_count,
        "packets_sent": figures.sent_count,
        "num_alive_connections": len(figures.clients),
        "outstanding_requests": 0,
        "znode_count": figures.node_count,
        "watch_count": figures.watch_count,
        "ephemerals_count": figures.ephemeral_count,
        "approximate_data_size": figures.data_bytes,
        "global_sessions": figures.session_count,
        "uptime": figures.uptime_ms,
    }
    return _lines([f"zk_{name}\t{value}" for name, value in facts.items()])


def _conf(figures: RegistryFigures) -> str:
    facts: dict[str, object] = {
        "clientPort": figures.client_port,
        "dataDir": figures.data_dir,
        "dataLogDir": figures.data_dir,
        "tickTime": figures.tick_time_ms,
        "maxClientCnxns": figures.max_client_connections,
        "minSessionTimeout": 2 * figures.tick_time_ms,
        "maxSessionTimeout": 20 * figures.tick_time_ms,
        "serverId": 1,
    }
    return _lines([f"{name}={value}" for name, value in facts.items()])
