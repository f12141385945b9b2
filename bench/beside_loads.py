"""What `bench/beside_kafka.py` measures: a table of loads, each of which gives some rows.

A new row is one more figure of a load, or one more load in `LOADS`.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import psutil

from bench.beside_stage import ACKS_ALL, Load, Sizes, Stage, Values, values_mb
from bench.beside_table import Figure, quantile
from bench.broker import make_values, produce_large_batches, run_ns
from bench.failover import Client, command_of
from bench.foreign_clients import end_to_end_us, kcat_seconds, read_by_librdkafka
from bench.partitions import TOPIC as MANY_PARTITIONS
from bench.partitions import ClusterRequests
from bench.raw_client import Problem, drive
from tests.compat import kafka_jvm
from tests.support.topics import describe
from tests.support.waiting import wait_until

IN_FLIGHT: Final = 200
MOST_PARTITIONS: Final = 8
_FAILOVER_S: Final = 60.0
_AFTER_FAILOVER_S: Final = 3.0


def warm_up(stage: Stage) -> None:
    """Give the system requests of the usual kinds, so that Java has compiled what they need."""
    sizes = stage.sizes
    topic = stage.create_topic(MOST_PARTITIONS)
    for acks in (1, ACKS_ALL):
        with stage.connections(topic, MOST_PARTITIONS, acks) as connections:
            requests, began = 0, time.monotonic()
            while requests < sizes.warm_requests and time.monotonic() < began + sizes.warm_most_s:
                requests += drive(connections, IN_FLIGHT // MOST_PARTITIONS, 0.5).requests
    megabytes = sizes.java_small_mb
    stage.programs.java.produce(stage.bootstrap, topic, "all", megabytes * 1_000, 1_000)


# -- a system at rest ------------------------------------------------------------------------------


def start(stage: Stage) -> Values:
    """What the start took."""
    return [stage.start_s]


def idle(stage: Stage) -> Values:
    """Memory and CPU of all processes, with no client."""
    sizes, processes = stage.sizes, stage.system.processes()
    time.sleep(sizes.settle_s)
    memory = sum(process.memory_full_info().pss for process in processes) / 1e6
    before = sum(map(run_ns, processes))
    time.sleep(sizes.idle_s)
    return [memory, (sum(map(run_ns, processes)) - before) / sizes.idle_s / 1e7]


# -- raw connections -------------------------------------------------------------------------------


def raw(connections: int, acks: int) -> Callable[[Stage], Values]:
    """Requests of one record of 100 bytes: one in flight on each connection, then many."""

    def run(stage: Stage) -> Values:
        seconds = stage.sizes.raw_s
        depth = max(1, IN_FLIGHT // connections)
        topic = stage.create_topic(min(connections, MOST_PARTITIONS))
        with stage.connections(topic, connections, acks) as opened:
            drive(opened, 1, seconds / 2)
            alone, cpu_s = stage.cpu_of(lambda: drive(opened, 1, seconds))
            drive(opened, depth, seconds / 2)
            many, many_cpu_s = stage.cpu_of(lambda: drive(opened, depth, seconds))
        stage.catch_up(topic)
        return [
            quantile(alone.waits_us, 0.5),
            quantile(alone.waits_us, 0.99),
            cpu_s / alone.requests * 1e6,
            many.rate,
            many_cpu_s / many.requests * 1e6,
        ]

    return run


def end_to_end(stage: Stage) -> Values:
    """From `produce` in one librdkafka client to the record in another."""
    waits = end_to_end_us(stage.bootstrap, stage.create_topic(), stage.sizes.end_to_end)
    return [quantile(waits, 0.5), quantile(waits, 0.99)]


# -- producers -------------------------------------------------------------------------------------


def java_producer(acks: str, record_bytes: int) -> Callable[[Stage], Values]:
    """ProducerPerformance with its defaults, apart from acks."""

    def run(stage: Stage) -> Values:
        sizes = stage.sizes
        megabytes = sizes.java_all_mb if acks == "all" else sizes.java_one_mb
        if record_bytes < 1_000:
            megabytes = sizes.java_small_mb
        records = megabytes * 1_000_000 // record_bytes
        topic = stage.create_topic()

        def produce() -> float:
            rate = stage.programs.java.produce(stage.bootstrap, topic, acks, records, record_bytes)
            stage.catch_up(topic)
            return rate

        rate, cpu_s = stage.cpu_of(produce)
        return [rate, cpu_s / megabytes * 1_000]

    return run


def large_batches(acks: str, codec: str = "none") -> Callable[[Stage], Values]:
    """A librdkafka producer of records of 1 KB in batches of up to 1 MB."""

    def run(stage: Stage) -> Values:
        values = make_values(1_000, varies=codec != "none", codec=codec)
        megabytes = stage.sizes.large_mb if codec == "none" else stage.sizes.codec_mb
        records = megabytes * 1_000
        topic = stage.create_topic()

        def produce() -> float:
            bootstrap = stage.bootstrap
            seconds = produce_large_batches(bootstrap, topic, acks, records, values, codec)
            stage.catch_up(topic)
            return seconds

        seconds, cpu_s = stage.cpu_of(produce)
        size = values_mb(values, records)
        return [size / seconds, cpu_s / size * 1_000]

    return run


# -- consumers -------------------------------------------------------------------------------------


def java_consumer(record_bytes: int) -> Callable[[Stage], Values]:
    """ConsumerPerformance with its defaults."""

    def run(stage: Stage) -> Values:
        topic, records = _filled_and_read(stage, record_bytes)
        consume = stage.programs.java.consume
        rate, cpu_s = stage.cpu_of(lambda: consume(stage.bootstrap, topic, records))
        return [rate, cpu_s / (records * record_bytes) * 1e9]

    return run


def kcat_consumer(record_bytes: int) -> Callable[[Stage], Values]:
    """kcat with its defaults, writing to /dev/null."""

    def run(stage: Stage) -> Values:
        program = stage.programs.kcat
        if program is None:
            raise Problem("kcat is not installed (Debian's package kcat)")
        topic, records = _filled_and_read(stage, record_bytes)
        bootstrap = stage.bootstrap
        seconds, cpu_s = stage.cpu_of(lambda: kcat_seconds(program, bootstrap, topic, records))
        size = records * record_bytes
        return [size / seconds / 1e6, cpu_s / size * 1e9]

    return run


def _filled_and_read(stage: Stage, record_bytes: int) -> tuple[str, int]:
    """A topic with data that was read once, and its number of records."""
    topic, records = stage.filled_topic(record_bytes, stage.sizes.read_mb)
    read_by_librdkafka(stage.bootstrap, topic, records)
    return topic, records


# -- the cluster -----------------------------------------------------------------------------------


def failover(stage: Stage) -> Values:
    """The pauses of two producers with their defaults (acks=all) when their leader is killed."""
    topic = stage.create_topic()
    clients: list[Client | None] = []
    try:
        for name in ("librdkafka", "java"):
            if name == "java" and not stage.programs.has_java_compiler:
                clients.append(None)
                continue
            command = command_of(name, "produce", stage.bootstrap, topic, kafka_jvm.NEWEST)
            clients.append(Client(*command))
        running = [client for client in clients if client is not None]
        for each in running:
            wait_until(partial(_has_records, each, 100), "a producer to work")
        time.sleep(1)
        return _killed(stage, topic, clients)
    finally:
        for client in clients:
            if client is not None:
                client.close()


def _killed(stage: Stage, topic: str, clients: Sequence[Client | None]) -> Values:
    running = [client for client in clients if client is not None]
    addresses = stage.system.addresses
    victim = addresses.index(stage.leaders(topic)[0])
    survivor = addresses[(victim + 1) % len(addresses)]

    def partition() -> tuple[int, int]:
        """Its leader and the size of its ISR, as a survivor knows them."""
        view = describe(survivor, topic)
        if view is None or not view.topics[0].partitions:
            return -1, 0
        state = view.topics[0].partitions[0]
        return int(state.leader_id), len(state.isr_nodes)

    began = time.monotonic()
    stage.system.kill(victim)
    try:
        wait_until(lambda: partition()[0] not in (victim, -1), "an election", _FAILOVER_S)
        after = max(time.monotonic(), began + _AFTER_FAILOVER_S)
        for client in running:
            wait_until(partial(_has_records, client, 1, after), "acknowledged records", _FAILOVER_S)
        return [None if client is None else client.pause_ms(began) for client in clients]
    finally:
        stage.system.revive(victim)
        wait_until(lambda: partition()[1] == stage.brokers, "the killed broker", _FAILOVER_S)


def _has_records(client: Client, count: int, since: float = 0.0) -> bool:
    """Whether so many records were acknowledged, and one since a time."""
    return len(client.times) >= count and client.times[-1] > since


def many_partitions(stage: Stage) -> Values:
    """Create a topic of many partitions, until each is served by its leader."""
    requests = ClusterRequests(stage.system.addresses)
    count = stage.sizes.partitions

    def create() -> float:
        began = time.monotonic()
        stage.create_topic(count, MANY_PARTITIONS)
        requests.wait_served(range(stage.brokers), count)
        return time.monotonic() - began

    seconds, cpu_s = stage.cpu_of(create)
    with suppress(psutil.Error):
        memory = sum(p.memory_full_info().pss for p in stage.system.processes()) / 1e6
        return [seconds, cpu_s, memory]
    return [seconds, cpu_s, None]


# -- the table -------------------------------------------------------------------------------------

P50: Final = Figure("p50", "{:,.0f}", "us")
P99: Final = Figure("p99", "{:,.0f}", "us")
REQUEST_CPU: Final = Figure("CPU per request", "{:,.0f}", "us")
RATE: Final = Figure(f"{IN_FLIGHT} in flight", "{:,.0f}", "requests/s", more_is_better=True)
BUSY_CPU: Final = Figure(f"{IN_FLIGHT} in flight, CPU per request", "{:,.0f}", "us")
RAW: Final = (P50, P99, REQUEST_CPU, RATE, BUSY_CPU)
SPEED: Final = Figure("", "{:,.0f}", "MB/s", more_is_better=True)
GB_CPU: Final = Figure("CPU per GB", "{:,.2f}", "s")
MOVED: Final = (SPEED, GB_CPU)
AT_REST: Final = (
    Figure("memory (PSS)", "{:,.0f}", "MB"),
    Figure("CPU", "{:.2f}", "% of a core"),
)
CREATED: Final = (
    Figure("every leader serves", "{:.2f}", "s"),
    Figure("CPU", "{:.2f}", "s"),
    Figure("memory afterwards (PSS)", "{:,.0f}", "MB"),
)

LOADS: Final = (
    Load(1, "start", [Figure("", "{:.2f}", "s")], start, is_cold=True),
    Load(1, "idle", AT_REST, idle, is_cold=True),
    Load(1, "raw 100 B, acks=1, 1 connection", RAW, raw(1, 1)),
    Load(1, "raw 100 B, acks=1, 8 connections", RAW, raw(8, 1)),
    Load(1, "raw 100 B, acks=1, 50 connections", RAW, raw(50, 1)),
    Load(1, "Java producer, acks=1, 1 KB", MOVED, java_producer("1", 1_000)),
    Load(1, "librdkafka, large batches, acks=1, 1 KB", MOVED, large_batches("1")),
    Load(1, "librdkafka, large batches, lz4", MOVED, large_batches("1", "lz4")),
    Load(1, "librdkafka, large batches, zstd", MOVED, large_batches("1", "zstd")),
    Load(1, "librdkafka, large batches, gzip", MOVED, large_batches("1", "gzip")),
    Load(1, "Java consumer, 100 B", MOVED, java_consumer(100)),
    Load(1, "Java consumer, 1 KB", MOVED, java_consumer(1_000)),
    Load(1, "kcat, 100 B", MOVED, kcat_consumer(100)),
    Load(1, "kcat, 1 KB", MOVED, kcat_consumer(1_000)),
    Load(3, "start", [Figure("", "{:.2f}", "s")], start, is_cold=True),
    Load(3, "idle", AT_REST, idle, is_cold=True),
    Load(3, "raw 100 B, acks=1, 1 connection", RAW, raw(1, 1)),
    Load(3, "raw 100 B, acks=1, 8 connections", RAW, raw(8, 1)),
    Load(3, "raw 100 B, acks=1, 50 connections", RAW, raw(50, 1)),
    Load(3, "raw 100 B, acks=all, 1 connection", RAW, raw(1, ACKS_ALL)),
    Load(3, "raw 100 B, acks=all, 8 connections", RAW, raw(8, ACKS_ALL)),
    Load(3, "raw 100 B, acks=all, 50 connections", RAW, raw(50, ACKS_ALL)),
    Load(3, "end to end, acks=all", (P50, P99), end_to_end),
    Load(3, "Java producer, its defaults (acks=all), 1 KB", MOVED, java_producer("all", 1_000)),
    Load(3, "Java producer, its defaults (acks=all), 10 KB", MOVED, java_producer("all", 10_000)),
    Load(3, "Java producer, acks=1, 100 B", MOVED, java_producer("1", 100)),
    Load(3, "Java producer, acks=1, 1 KB", MOVED, java_producer("1", 1_000)),
    Load(3, "Java producer, acks=1, 10 KB", MOVED, java_producer("1", 10_000)),
    Load(3, "librdkafka, large batches, acks=all, 1 KB", MOVED, large_batches("all")),
    Load(
        3,
        "kill -9 of a leader",
        (
            Figure("longest pause of a librdkafka producer", "{:,.0f}", "ms"),
            Figure("longest pause of a Java producer", "{:,.0f}", "ms"),
        ),
        failover,
    ),
    Load(3, f"creating {Sizes().partitions:,} partitions", CREATED, many_partitions),
)
