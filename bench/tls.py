"""TLS against plain: one librdkafka client's produce and fetch, what a handshake costs, memory.

    PYTHONPATH=. .venv/bin/python -m bench.tls [--megabytes 300] [--record-bytes 1000 10000]
        [--rounds 3] [--without-kafka]

One broker, one partition, records that do not compress, acks=1. Plain and TLS take turns, and
the best round of each counts, since a neighbour on the machine only makes a round slower. The CPU
of the broker, and of the client with the thread that makes the records, for each GB is beside it:
librdkafka writes two records of TLS for each of its own. So much of that as its thread for the
broker takes bounds what any broker can reach: a thread that takes 2 s per GB moves no more than
500 MB/s. With Kafka's jars in the cache (`python -m
tests.compat.kafka_jvm`) Apache Kafka 3.9 does the same, with its usual compiler and its own best
round; its handshakes are counted by the same client.
"""

import argparse
import contextlib
import os
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.runtime.certificates import KeyKind
from tests.compat.kafka_jvm import class_path
from tests.compat.kafka_process import KafkaProcess
from tests.support.running_cluster import Cluster, free_ports
from tests.support.tls import PASSWORD, a_server, authority, client_context
from tests.support.waiting import wait_until

HANDSHAKE_SECONDS: Final = 3.0
CLIENT_THREADS: Final = 2
HALF_OPEN: Final = 500
OPEN: Final = 500
_RESET: Final = struct.pack("ii", 1, 0)
"""Closed so, a connection leaves no port waiting."""


class System(NamedTuple):
    """A broker, whose it is, and its two listeners."""

    name: str
    process: psutil.Process
    plain_port: int
    tls_port: int


class Load(NamedTuple):
    """What is produced and fetched."""

    records: int
    record_bytes: int


class Rate(NamedTuple):
    """How fast records went, and what that cost the broker and the client."""

    mb_per_s: float
    broker_s_per_gb: float
    client_s_per_gb: float
    client_thread_s_per_gb: float


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--record-bytes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-kafka", action="store_true")
    options = parser.parse_args()
    loads = [Load(options.megabytes * 1_000_000 // size, size) for size in options.record_bytes]
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory:
        path = Path(directory)
        ca = path / "ca.pem"
        ca.write_bytes(authority().identity.certificate_pem())
        with milena(path, "EC") as ours:
            throughput(ours, ca, loads, options.rounds)
            handshakes(ours, "EC")
            memory(ours)
        with milena(path, "RSA") as ours:
            handshakes(ours, "RSA")
        if class_path() is None or options.without_kafka:
            print("Apache Kafka: left out")
            return
        with kafka(path) as theirs:
            throughput(theirs, ca, loads, options.rounds)
            handshakes(theirs, "EC")


# -- systems --------------------------------------------------------------------------------------


@contextlib.contextmanager
def milena(path: Path, kind: KeyKind, **others: str) -> Iterator[System]:
    """One broker of ours."""
    store = path / f"{kind}.p12"
    store.write_bytes(a_server(kind=kind).pkcs12("broker", PASSWORD))
    overrides = {"listeners": "PLAINTEXT://:0,SSL://:0", **stores(store), **others}
    with Cluster(path / f"milena-{kind}", brokers=1, overrides=overrides) as cluster:
        (broker,) = cluster.state()["brokers"]
        ports = {each["name"]: each["port"] for each in broker["listeners"]}
        yield System("Milena", psutil.Process(broker["pid"]), ports["PLAINTEXT"], ports["SSL"])


@contextlib.contextmanager
def kafka(path: Path) -> Iterator[System]:
    """One broker of Apache Kafka, with a registry of ours."""
    store = path / "EC.p12"
    first = free_ports(2)
    overrides = {
        "listeners": f"PLAINTEXT://127.0.0.1:{first},SSL://127.0.0.1:{first + 1}",
        **stores(store),
    }
    with (
        Cluster(path / "registry", brokers=1) as cluster,
        KafkaProcess(
            path / "kafka",
            broker_id=0,
            address=("127.0.0.1", first),
            registry=f"127.0.0.1:{cluster.registry_port}/kafka",
            overrides=overrides,
            java=("java",),
        ) as broker,
    ):
        yield System("Apache Kafka", psutil.Process(broker.pid), first, first + 1)


def stores(store: Path) -> dict[str, str]:
    store.chmod(0o600)
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }


# -- throughput -----------------------------------------------------------------------------------


def throughput(system: System, ca: Path, loads: Sequence[Load], rounds: int) -> None:
    """Print produce and fetch, plain and through TLS, and their ratio."""
    listeners = {
        "plain": {"bootstrap.servers": f"localhost:{system.plain_port}"},
        "TLS": {
            "bootstrap.servers": f"localhost:{system.tls_port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(ca),
        },
    }
    for load in loads:
        best: dict[tuple[str, str], Rate] = {}
        for number in range(rounds):
            for name, config in listeners.items():
                topic = f"{name}-{load.record_bytes}-{number}"
                create(listeners["plain"], topic)
                for work, rate in (
                    ("produce", measured(system, produce, config, topic, load)),
                    ("fetch", measured(system, fetch, config, topic, load)),
                ):
                    best[work, name] = max(best.get((work, name), rate), rate)
        for work in ("produce", "fetch"):
            plain, tls = best[work, "plain"], best[work, "TLS"]
            print(
                f"{system.name}: {work}, {load.record_bytes} bytes: plain {described(plain)},"
                f" TLS {described(tls)}: {tls.mb_per_s / plain.mb_per_s:.0%}"
            )


def described(rate: Rate) -> str:
    return (
        f"{rate.mb_per_s:.0f} MB/s (CPU per GB: broker {rate.broker_s_per_gb:.2f} s,"
        f" client {rate.client_s_per_gb:.2f} s, of it {rate.client_thread_s_per_gb:.2f} s in one"
        " thread)"
    )


def create(config: dict[str, str], topic: str) -> None:
    admin = AdminClient(config)
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)

    def has_leader() -> bool:
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
        return bool(partitions) and partitions[0].leader >= 0

    wait_until(has_leader, "the topic")


class Moved(NamedTuple):
    """How long it took to move the records of a topic."""

    seconds: float
    client_thread_s: float
    """CPU seconds of librdkafka's thread for the broker."""


Work = Callable[[dict[str, str], str, Load], Moved]


def measured(system: System, work: Work, config: dict[str, str], topic: str, load: Load) -> Rate:
    """One round of it."""
    client = psutil.Process()
    before, client_before = cpu_seconds(system.process), cpu_seconds(client)
    moved = work(config, topic, load)
    gigabytes = load.records * load.record_bytes / 1e9
    spent = cpu_seconds(system.process) - before
    client_spent = cpu_seconds(client) - client_before
    return Rate(
        gigabytes * 1e3 / moved.seconds,
        spent / gigabytes,
        client_spent / gigabytes,
        moved.client_thread_s / gigabytes,
    )


def produce(config: dict[str, str], topic: str, load: Load) -> Moved:
    producer = Producer(
        config
        | {"acks": "1", "linger.ms": "5", "batch.size": "1000000"}
        | {"queue.buffering.max.messages": "1000000", "queue.buffering.max.kbytes": "1048576"}
    )
    producer.list_topics(topic, timeout=10)  # connects
    payloads = [os.urandom(load.record_bytes) for _ in range(1_000)]
    began, thread_s = time.perf_counter(), broker_thread_s()
    for number in range(load.records):
        producer.produce(topic, payloads[number % 1_000])
        if number % 1_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise SystemExit("not all records were produced")
    return Moved(time.perf_counter() - began, broker_thread_s() - thread_s)


def fetch(config: dict[str, str], topic: str, load: Load) -> Moved:
    consumer = Consumer(
        config
        | {"group.id": "bench", "enable.auto.commit": "false"}
        | {"fetch.message.max.bytes": "10000000", "queued.max.messages.kbytes": "65536"}
        # By default it pauses for a second whenever a fast broker has filled its queue.
        | {"fetch.queue.backoff.ms": "1"}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left = load.records - len(consumer.consume(1, 30))  # connected by now
    began, thread_s = time.perf_counter(), broker_thread_s()
    while left > 0:
        messages = consumer.consume(min(left, 10_000), 30)
        if not messages:
            raise SystemExit("no more records")
        left -= len(messages)
    moved = Moved(time.perf_counter() - began, broker_thread_s() - thread_s)
    consumer.close()
    return moved


def broker_thread_s() -> float:
    """CPU seconds of this process's threads of librdkafka that speak to a broker; as Linux says."""
    sum_s = 0.0
    for thread in psutil.Process().threads():
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            name = Path(f"/proc/self/task/{thread.id}/comm").read_text()
            if name.startswith("rdk:broker"):
                sum_s += thread.user_time + thread.system_time
    return sum_s


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


# -- handshakes -----------------------------------------------------------------------------------


def handshakes(system: System, kind: KeyKind) -> None:
    """Print how many full handshakes a second, and the broker's CPU for each."""
    shake_hands(system.tls_port, 0.5)
    before, began = cpu_seconds(system.process), time.perf_counter()
    with ThreadPoolExecutor(CLIENT_THREADS) as threads:
        counts = list(
            threads.map(
                lambda _: shake_hands(system.tls_port, HANDSHAKE_SECONDS), range(CLIENT_THREADS)
            )
        )
    seconds, count = time.perf_counter() - began, sum(counts)
    cost_ms = (cpu_seconds(system.process) - before) / count * 1e3
    print(
        f"{system.name}: {kind}: {count / seconds:.0f} full handshakes/s"
        f" from {CLIENT_THREADS} threads, {cost_ms:.2f} ms of the broker's CPU each"
    )


def shake_hands(port: int, seconds: float) -> int:
    context = client_context()
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        with (
            socket.create_connection(("localhost", port), 10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            count += 1
    return count


# -- memory ---------------------------------------------------------------------------------------


def memory(system: System) -> None:
    """Print what connections take of the broker's private memory."""
    with contextlib.ExitStack() as opened:
        for name, count, connect in (
            ("that sent nothing", HALF_OPEN, silent),
            ("in mid-handshake", HALF_OPEN, half_open),
            ("open and idle", OPEN, idle),
        ):
            before = system.process.memory_full_info().uss
            for _ in range(count):
                opened.enter_context(connect(system.tls_port))
            time.sleep(1)
            grown = system.process.memory_full_info().uss - before
            print(f"{system.name}: {count} connections {name}: {grown / count / 1024:.1f} KiB each")


def silent(port: int) -> socket.socket:
    return socket.create_connection(("localhost", port), 10)


def half_open(port: int) -> socket.socket:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        stream.do_handshake()
    connection = silent(port)
    connection.sendall(outgoing.read())
    connection.recv(1)
    return connection


def idle(port: int) -> socket.socket:
    return client_context().wrap_socket(silent(port), server_hostname="localhost")


if __name__ == "__main__":
    main()
