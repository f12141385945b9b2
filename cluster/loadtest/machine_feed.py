"""Records about this machine, from psutil: one per process, keyed by its name, and one in total.

Sample data for demonstrations. It contains process names, which are sent to the brokers.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import psutil

from cluster.model.clocks import WallMs
from cluster.runtime.clock import Clock
from cluster.runtime.interrupts import deferred_interrupt

CLIENT_ID: Final = "machine-feed"
_ATTRIBUTES: Final = ["pid", "name", "cpu_percent", "memory_info", "num_threads", "status"]
_FLUSH_TIMEOUT_S: Final = 10.0


class Measurement(NamedTuple):
    """One record: its subject and a JSON object."""

    key: str
    value: dict[str, Any]


def measure_machine(wall_ms: WallMs) -> Iterator[Measurement]:
    """Measure the machine and its processes now, leaving out processes that end meanwhile."""
    memory, disk, network = (
        psutil.virtual_memory(),
        psutil.disk_io_counters(),
        psutil.net_io_counters(),
    )
    system = {
        "cpu_percent": psutil.cpu_percent(),
        "load_1m": psutil.getloadavg()[0],
        "memory_used_bytes": memory.used,
        "memory_available_bytes": memory.available,
        "disk_read_bytes": disk.read_bytes if disk else None,
        "disk_written_bytes": disk.write_bytes if disk else None,
        "network_received_bytes": network.bytes_recv if network else None,
        "network_sent_bytes": network.bytes_sent if network else None,
    }
    yield Measurement("system", {"ts": wall_ms, "kind": "system", **system})
    for process in psutil.process_iter(_ATTRIBUTES):
        found = process.info
        memory_info = found["memory_info"]
        yield Measurement(
            found["name"] or str(found["pid"]),
            {
                "ts": wall_ms,
                "kind": "process",
                "pid": found["pid"],
                "name": found["name"],
                "status": found["status"],
                "cpu_percent": found["cpu_percent"],
                "resident_bytes": memory_info.rss if memory_info else None,
                "threads": found["num_threads"],
            },
        )


def encoded(measurements: Iterable[Measurement]) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of the records."""
    for one in measurements:
        yield one.key.encode(), json.dumps(one.value, separators=(",", ":")).encode()


def feed_topic(
    connection: Mapping[str, Any],
    topic: str,
    seconds: float,
    clock: Clock,
    interval_s: float = 0.5,
) -> int:
    """Produce measurements to a topic for `seconds`. Returns how many were acknowledged.

    `connection`: settings of a Kafka client, `bootstrap.servers` among them.
    """
    from confluent_kafka import KafkaError, Message, Producer

    acknowledged = 0

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    with deferred_interrupt():
        producer = Producer(
            {
                **connection,
                "client.id": CLIENT_ID,
                "acks": "all",
                "partitioner": "murmur2_random",
                "compression.type": "lz4",
                "linger.ms": 20,
                "log_level": 0,
            }
        )
    end_ms = clock.monotonic_ms() + int(seconds * 1_000)
    due_ms: int = clock.monotonic_ms()
    while due_ms < end_ms:
        for key, value in encoded(measure_machine(clock.wall_ms())):
            producer.produce(topic, value=value, key=key, on_delivery=on_delivery)
        due_ms += int(interval_s * 1_000)
        while (wait_ms := min(due_ms, end_ms) - clock.monotonic_ms()) > 0:
            producer.poll(wait_ms / 1_000)
    producer.flush(_FLUSH_TIMEOUT_S)
    return acknowledged
