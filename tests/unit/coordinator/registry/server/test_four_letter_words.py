"""The texts that monitoring tools parse."""

from cluster.coordinator.registry.server.four_letter_words import RegistryFigures, answer
from cluster.coordinator.registry.server.latency import Latency

FIGURES = RegistryFigures(
    clients=(" /127.0.0.1:5000[1](queued=0,recved=7,sent=8)",),
    latency_min_ms=0,
    latency_average_ms=0.25,
    latency_max_ms=3,
    received_count=10,
    sent_count=11,
    zxid=0x1F,
    node_count=5,
    watch_count=2,
    ephemeral_count=1,
    data_bytes=100,
    files_bytes=200,
    session_count=1,
    uptime_ms=9_000,
    client_port=2181,
    secure_client_port=-1,
    data_dir="/data",
    tick_time_ms=2_000,
    max_client_connections=60,
    listen_backlog=50,
)

SUMMARY = """Latency min/avg/max: 0/0.25/3
Received: 10
Sent: 11
Connections: 1
Outstanding: 0
Zxid: 0x1f
Mode: standalone
Node count: 5
"""


def test_simple_four_letter_words_are_answered() -> None:
    assert answer(b"dirs", FIGURES) == "datadir_size: 200\nlogdir_size: 200\n"
    assert answer(b"srst", FIGURES) == "Server stats reset.\n"
    assert answer(b"crst", FIGURES) == "Connection stats reset.\n"
    assert answer(b"envi", FIGURES).startswith("Environment:\nzookeeper.version=3.8.0-milena\n")
    assert answer(b"ruok", FIGURES) == "imok"
    assert answer(b"isro", FIGURES) == "rw"


def test_srvr_and_stat() -> None:
    assert answer(b"srvr", FIGURES) == "Zookeeper version: 3.8.0-milena\n" + SUMMARY
    clients = "Clients:\n /127.0.0.1:5000[1](queued=0,recved=7,sent=8)\n\n"
    assert answer(b"stat", FIGURES) == "Zookeeper version: 3.8.0-milena\n" + clients + SUMMARY


def test_mntr_and_conf_are_one_fact_a_line() -> None:
    facts = dict(line.split("\t") for line in answer(b"mntr", FIGURES).splitlines())
    assert facts["zk_znode_count"] == "5"
    assert facts["zk_server_state"] == "standalone"
    settings = dict(line.split("=") for line in answer(b"conf", FIGURES).splitlines())
    assert settings["minSessionTimeout"] == "4000"
    assert settings["maxSessionTimeout"] == "40000"


def test_latency() -> None:
    latency = Latency()
    assert (latency.min_ms, latency.average_ms, latency.max_ms) == (0, 0.0, 0)
    latency.record(4, 3)
    latency.record(0, 1)
    latency.record(9, 0)
    assert (latency.min_ms, latency.average_ms, latency.max_ms) == (0, 3.0, 4)
