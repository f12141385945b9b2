"""What `bench/transactions.py` measures: a table of loads, each of which gives some rows."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from bench.beside_stage import Load, Sizes, Stage, Values
from bench.beside_systems import System
from bench.beside_table import Figure, quantile
from bench.foreign_clients import read_by_librdkafka
from bench.raw_client import Problem
from bench.raw_transactions import (
    BlockingConnection,
    TransactionalProducer,
    Worker,
    describe_frame,
    find_frame,
    read_answer,
    run_transactions,
    work,
)
from bench.transaction_clients import (
    Times,
    Transacted,
    produce_by_java,
    produce_by_librdkafka,
    transform_by_java,
    transform_by_librdkafka,
)
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.error_codes import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.running_cluster import Address

_ABORTED_OF: Final = 10
"""One of so many transactions is aborted."""
_PARTITIONS: Final = 8
_WORKERS: Final = 32
_VALUE_BYTES: Final = 1_000
_RECORDS_OF_TRANSACTION: Final = 100
_STATE_PARTITIONS: Final = 50
"""Of `__transaction_state`, by default in both systems."""
_MORE_US: Final = 1e6
_COMMITTED: Final = "isolation.level=read_committed\n"
_RESTART_S: Final = 120.0


def warm_up(stage: Stage) -> None:
    """Let Java compile what transactions need."""
    topic = stage.create_topic(_PARTITIONS)
    times = Times(0.0, stage.sizes.warm_transactions_s)
    produce_by_java(stage.programs.java, stage.bootstrap, topic, _PARTITIONS, times)
    source = _filled(stage, stage.sizes.transform_records // 10)
    transform_by_java(stage.programs.java, stage.bootstrap, source, topic, times)
    _raw(stage, stage.create_topic(), stage.sizes.warm_transactions_s)


# -- one producer ----------------------------------------------------------------------------------

Produce = Callable[[Stage, str, Times], Transacted]
Transform = Callable[[Stage, str, str, Times], Transacted]


def java(partitions: int) -> Produce:
    """Kafka's own client."""
    return lambda stage, topic, times: produce_by_java(
        stage.programs.java, stage.bootstrap, topic, partitions, times
    )


def librdkafka(partitions: int) -> Produce:
    """confluent-kafka."""
    return lambda stage, topic, times: produce_by_librdkafka(
        stage.bootstrap, topic, partitions, times
    )


def producing(partitions: int, produce: Produce) -> Callable[[Stage], Values]:
    """Transactions with a record in each partition."""

    def run(stage: Stage) -> Values:
        topic = stage.create_topic(partitions)
        times = Times(stage.sizes.uncounted_s, stage.sizes.transactions_s)
        done, cpu_s = stage.cpu_of(lambda: produce(stage, topic, times))
        return [*_commits(done), _cpu_of_each(done, cpu_s, times)]

    return run


def raw(stage: Stage) -> Values:
    """Transactions of one partition; commit is EndTxn alone."""
    topic = stage.create_topic()
    _raw(stage, topic, stage.sizes.uncounted_s)
    seconds = stage.sizes.transactions_s
    (count, waits), cpu_s = stage.cpu_of(lambda: _raw(stage, topic, seconds))
    return [
        count / seconds,
        quantile(waits, 0.5),
        quantile(waits, 0.99),
        cpu_s / count * _MORE_US,
    ]


def _raw(stage: Stage, topic: str, seconds: float) -> tuple[int, list[float]]:
    transactional_id = f"raw-{topic}"
    coordinator = coordinator_of(stage, transactional_id)
    return run_transactions(coordinator, stage.leaders(topic)[0], topic, transactional_id, seconds)


def coordinator_of(stage: Stage, transactional_id: str) -> Address:
    """The address of the coordinator. Raises Problem."""
    deadline = time.monotonic() + _RESTART_S
    while time.monotonic() < deadline:
        with BlockingConnection(stage.system.addresses[0]) as connection:
            answer = read_answer(
                ApiKey.FIND_COORDINATOR, connection.call(find_frame([transactional_id]))
            )
        [found] = answer.coordinators
        if found.error_code is ErrorCode.none:
            return found.host, found.port
        time.sleep(0.1)
    raise Problem(f"{transactional_id} has no coordinator")


def transforming(transform: Transform) -> Callable[[Stage], Values]:
    """Copy records of a topic that has enough of them, with the offsets in the transaction."""

    def run(stage: Stage) -> Values:
        source = _filled(stage, stage.sizes.transform_records)
        target = stage.create_topic(_PARTITIONS)
        times = Times(stage.sizes.uncounted_s, stage.sizes.transactions_s)
        done, cpu_s = stage.cpu_of(lambda: transform(stage, source, target, times))
        rate, p50, p99 = _commits(done)
        cpu_us = _cpu_of_each(done, cpu_s, times)
        return [done.records / done.seconds, rate, p50, p99, cpu_us]

    return run


def _commits(done: Transacted) -> tuple[float, float, float]:
    """Transactions per second; the median and the 99th percentile of their commits."""
    waits = done.commits_ms
    return done.count / done.seconds, quantile(waits, 0.5), quantile(waits, 0.99)


def _cpu_of_each(done: Transacted, cpu_s: float, times: Times) -> float:
    """CPU time of the system per transaction, in microseconds, if those that were not counted were
    as many in their time."""
    return cpu_s / (done.count * (times.uncounted_s + done.seconds) / done.seconds) * _MORE_US


def _java_copies(stage: Stage, source: str, target: str, times: Times) -> Transacted:
    return transform_by_java(stage.programs.java, stage.bootstrap, source, target, times)


def _librdkafka_copies(stage: Stage, source: str, target: str, times: Times) -> Transacted:
    return transform_by_librdkafka(stage.bootstrap, source, target, times)


def _filled(stage: Stage, records: int) -> str:
    """A topic with records of 100 bytes, the same number in each partition."""
    topic = stage.create_topic(_PARTITIONS)
    stage.fill(topic, records, 100)
    return topic


# -- read_committed --------------------------------------------------------------------------------


def java_committed(stage: Stage) -> Values:
    """ConsumerPerformance."""
    topic, records = _with_aborted(stage)
    consume = stage.programs.java.consume
    rate, cpu_s = stage.cpu_of(lambda: consume(stage.bootstrap, topic, records, config=_COMMITTED))
    size = records * _VALUE_BYTES
    return [rate, rate * 1e6 / _VALUE_BYTES, cpu_s / size * 1e9]


def librdkafka_committed(stage: Stage) -> Values:
    """librdkafka reads only what is committed by default."""
    topic, records = _with_aborted(stage)
    began = time.monotonic()
    _, cpu_s = stage.cpu_of(lambda: read_by_librdkafka(stage.bootstrap, topic, records))
    rate = records / (time.monotonic() - began)
    return [rate * _VALUE_BYTES / 1e6, rate, cpu_s / (records * _VALUE_BYTES) * 1e9]


def _with_aborted(stage: Stage) -> tuple[str, int]:
    """A topic of one partition with transactions of several producers, a tenth of them aborted, and
    the number of records that are committed. It was read once."""
    made = stage.kept.get("with_aborted")
    if made is None:
        made = stage.kept["with_aborted"] = _write_with_aborted(stage)
        read_by_librdkafka(stage.bootstrap, *made)
    topic, records = made
    return topic, records


def _write_with_aborted(stage: Stage) -> tuple[str, int]:
    topic = stage.create_topic()
    leader = stage.system.addresses.index(stage.leaders(topic)[0])
    per_batch = _RECORDS_OF_TRANSACTION
    count = max(_ABORTED_OF, stage.sizes.transactional_mb * 1_000_000 // (per_batch * _VALUE_BYTES))
    values = [b"x" * _VALUE_BYTES] * per_batch
    producers = [TransactionalProducer(f"read-{number}") for number in range(_PARTITIONS)]

    async def transact(worker: Worker, share: tuple[TransactionalProducer, range]) -> None:
        producer, numbers = share
        await worker.init(producer)
        for number in numbers:
            await worker.write(producer, topic, 0, leader, values)
            await worker.end(producer, commits=number % _ABORTED_OF != 0)

    shares = [
        (producer, range(place, count, len(producers))) for place, producer in enumerate(producers)
    ]
    asyncio.run(work(stage.system.addresses, len(producers), shares, transact))
    committed = sum(number % _ABORTED_OF != 0 for number in range(count))
    return topic, committed * per_batch


# -- many transactional ids ------------------------------------------------------------------------


def open_ids(stage: Stage) -> Values:
    """Transactions of many producers that are open at the same time."""
    count = stage.sizes.open_ids
    topic = stage.create_topic(_PARTITIONS)
    addresses = stage.system.addresses
    leaders = [addresses.index(leader) for leader in stage.leaders(topic)]
    producers = [TransactionalProducer(f"open-{number}") for number in range(count)]

    async def begin(worker: Worker, number: int) -> None:
        producer, place = producers[number], number % _PARTITIONS
        await worker.init(producer)
        await worker.write(producer, topic, place, leaders[place], [b"x" * 100])

    async def commit(worker: Worker, producer: TransactionalProducer) -> None:
        await worker.end(producer, commits=True)

    before = _memory_mb(stage.system)
    opened_s = asyncio.run(work(addresses, _WORKERS, range(count), begin))
    memory = _memory_mb(stage.system) - before
    seconds = stage.sizes.transactions_s
    lone = stage.create_topic()
    _raw(stage, lone, seconds / 3)
    _, waits = _raw(stage, lone, seconds)
    committed_s = asyncio.run(work(addresses, _WORKERS, producers, commit))
    return [opened_s, memory, quantile(waits, 0.5), quantile(waits, 0.99), committed_s]


def _memory_mb(system: System) -> float:
    return float(sum(each.memory_full_info().pss for each in system.processes())) / 1e6


def loaded_ids(stage: Stage) -> Values:
    """Many ids whose coordinator stops: another one loads them, or the same after a restart."""
    system = stage.system
    ids = [f"loaded-{number}" for number in range(stage.sizes.loaded_ids)]

    async def begin(worker: Worker, transactional_id: str) -> None:
        await worker.init(TransactionalProducer(transactional_id))

    created_s = asyncio.run(work(system.addresses, _WORKERS, ids, begin))
    one_each = {partition_of(each, _STATE_PARTITIONS): each for each in ids}.values()
    victim = len(system.addresses) - 1
    if victim == 0:
        system.stop(victim)
        before = time.monotonic()
        system.start_again(victim)
        answered_s = _answered(list(one_each), system.addresses) - before
        return [created_s, answered_s]
    before = time.monotonic()
    stopping = threading.Thread(target=system.stop, args=(victim,))
    stopping.start()
    answered_s = _answered(list(one_each), system.addresses[:victim]) - before
    stopping.join()
    system.start_again(victim)
    return [created_s, answered_s]


def _answered(ids: Sequence[str], addresses: Sequence[Address]) -> float:
    """When the coordinators of all ids have loaded them, by the monotonic clock. Raises Problem."""
    deadline = time.monotonic() + _RESTART_S
    frame = describe_frame(ids)
    while time.monotonic() < deadline:
        known: set[str] = set()
        for address in addresses:
            with suppress(OSError, Problem), BlockingConnection(address) as connection:
                answer = read_answer(ApiKey.DESCRIBE_TRANSACTIONS, connection.call(frame))
                known |= set(_found(answer))
        if known.issuperset(ids):
            return time.monotonic()
        time.sleep(0.005)
    raise Problem("the transactional ids were not loaded")


def _found(answer: Any) -> Iterator[str]:
    for each in answer.transaction_states:
        if each.error_code is ErrorCode.none:
            yield each.transactional_id


# -- the table -------------------------------------------------------------------------------------

RATE: Final = Figure("", "{:,.0f}", "transactions/s", more_is_better=True)
P50: Final = Figure("commit p50", "{:,.2f}", "ms")
P99: Final = Figure("commit p99", "{:,.2f}", "ms")
CPU: Final = Figure("CPU per transaction", "{:,.0f}", "us")
TRANSACTIONS: Final = (RATE, P50, P99, CPU)
COPIED: Final = (
    Figure("", "{:,.0f}", "records/s", more_is_better=True),
    RATE._replace(name="transactions"),
    P50._replace(name="transaction p50"),
    P99._replace(name="transaction p99"),
    CPU,
)
READ: Final = (
    Figure("", "{:,.0f}", "MB/s", more_is_better=True),
    Figure("records", "{:,.0f}", "records/s", more_is_better=True),
    Figure("CPU per GB", "{:,.2f}", "s"),
)
OPENED: Final = (
    Figure("opened in", "{:,.1f}", "s"),
    Figure("memory (PSS): more than before", "{:,.0f}", "MB"),
    *(
        P50._replace(name="commit p50 of another one"),
        P99._replace(name="commit p99 of another one"),
    ),
    Figure("committed in", "{:,.1f}", "s"),
)


def _loads(brokers: int) -> Iterator[Load]:
    load = partial(Load, brokers)
    for client, producer in (("Java", java), ("librdkafka", librdkafka)):
        for count in (1, 10, 100):
            partitions = f"{count} partition{'s' if count > 1 else ''}"
            run = producing(count, producer(count))
            yield load(f"{client}, {partitions} in a transaction", TRANSACTIONS, run)
    yield load("raw connection, 1 partition in a transaction", TRANSACTIONS, raw)
    yield load("Java, consume-transform-produce", COPIED, transforming(_java_copies))
    yield load("librdkafka, consume-transform-produce", COPIED, transforming(_librdkafka_copies))
    yield load("Java, read_committed", READ, java_committed)
    yield load("librdkafka, read_committed", READ, librdkafka_committed)
    sizes = Sizes()
    yield load(f"{sizes.open_ids:,} open transactional ids", OPENED, open_ids)
    end = "restarted until it answers for all" if brokers == 1 else "stopped until others answer"
    figures = (Figure("created in", "{:,.1f}", "s"), Figure(f"coordinator {end}", "{:,.2f}", "s"))
    yield load(f"{sizes.loaded_ids:,} transactional ids", figures, loaded_ids)


LOADS: Final = (*_loads(1), *_loads(3))
