"""Kafka 4.1 and our brokers give the same answers to bad and unusual transaction requests."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.transactions.records import (
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.model.error_codes import ErrorCode
from cluster.records.builder import build_batch
from cluster.records.reader import read_records
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import require_kafka
from tests.compat.kraft_process import SILENT_BROKER, KraftProcess
from tests.compat.transaction_coordinator_stories import (
    denials,
    deny,
    endings,
    loaded_ones,
    stored_transactions,
    views,
)
from tests.compat.transaction_group_stories import added_offsets, committed, committed_offsets
from tests.compat.transaction_produce_stories import (
    acknowledgments,
    several_producers,
    times,
    unverified,
)
from tests.compat.transaction_side import Place, TransactionSide, Who
from tests.compat.transaction_stories import (
    OFFSETS,
    STATE_TOPIC,
    Story,
    batches,
    ends,
    ends_with_new_epochs,
    fences,
    markers,
    new_producers,
    partitions_of_brokers,
    partitions_of_clients,
    places_of,
    timeouts,
)
from tests.support.kafka_wire import fetch_request
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

ADMIN = "__admin_client"
"""The client id of those who may write to internal topics."""
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
    # How long requests wait for a transition: in `endings`, for nothing.
    "add.partitions.to.txn.retry.backoff.ms": "20",
    "add.partitions.to.txn.retry.backoff.max.ms": "20",
}

OLDER: dict[str, Story] = {
    **{f"add v{each}": partial(partitions_of_clients, version=each) for each in range(4)},
    **{f"offsets v{each}": partial(added_offsets, version=each) for each in range(5)},
    **{f"commit v{each}": partial(committed_offsets, version=each) for each in range(5)},
    **{f"end v{each}": partial(ends, version=each) for each in range(5)},
    **{f"fence v{each}": partial(fences, init=each, is_new=False) for each in range(6)},
    **{f"produce v{each}": partial(batches, version=each) for each in (3, 9, 11)},
    "timeout": partial(timeouts, is_new=False),
}
"""What clients send that do not know transaction version 2."""
SOME_OLDER = [
    "add v3",
    "offsets v3",
    "commit v3",
    "end v3",
    "fence v2",
    "fence v3",
    "fence v5",
    "produce v9",
    "produce v11",
    "timeout",
]
STORIES: dict[str, Story] = {
    **OLDER,
    "init": new_producers,
    "add v4": partial(partitions_of_brokers, version=4),
    "add v5": partial(partitions_of_brokers, version=5),
    "commit v5": partial(committed_offsets, version=5),
    "end v5": ends_with_new_epochs,
    "fence of version 2": partial(fences, init=5, is_new=True),
    "produce v12": partial(batches, version=12),
    "acks v11": partial(acknowledgments, version=11),
    "acks v12": partial(acknowledgments, version=12),
    "unverified": unverified,
    "times": times,
    "several producers v11": partial(several_producers, version=11),
    "several producers v12": partial(several_producers, version=12),
    "timeout of version 2": partial(timeouts, is_new=True),
    "markers": markers,
    "views": views,
    "loaded": loaded_ones,
    "rights": denials,
    "endings": endings,
}


@pytest.fixture(scope="module")
def kafka_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftProcess]:
    require_kafka(NEWEST)
    directory: Path = tmp_path_factory.mktemp("kafka")
    node = KraftProcess(directory, overrides=SETTINGS, features={"transaction.version": 2})
    with node:
        store_transactions(node.address, is_ours=False)
        node.stop()
        yield node.start()


@pytest.fixture(scope="module")
def kafka(kafka_process: KraftProcess) -> Iterator[TransactionSide]:
    @contextmanager
    def silent_partition() -> Iterator[Place]:
        kafka_process.add_silent_broker()
        topic = unique_name("silent")
        side.assign(topic, [SILENT_BROKER])
        yield topic, 0

    with TransactionSide(
        kafka_process.address, is_ours=False, silent_partition=silent_partition
    ) as side:
        side.warm_up()
        deny(side)
        yield side


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransactionSide]:
    with Cluster(tmp_path_factory.mktemp("ours"), overrides=SETTINGS) as cluster:
        addresses = cluster.addresses
        leader = store_transactions(addresses[0], is_ours=True)
        cluster.restart(addresses.index(leader))

        @contextmanager
        def silent_partition() -> Iterator[Place]:
            topic = create_topic(cluster, assignments=[[silent]])
            cluster.pause(silent)
            try:
                yield topic, 0
            finally:
                cluster.resume(silent)

        with TransactionSide(addresses[0], is_ours=True, silent_partition=silent_partition) as side:
            side.warm_up()
            coordinators = {
                addresses.index(side.leader_address(place)) for place in ((STATE_TOPIC, 0), OFFSETS)
            }
            silent = max(set(range(cluster.size)) - coordinators)
            side.home = sorted(set(range(cluster.size)) - {silent})
            deny(side)
            yield side


def store_transactions(address: Address, *, is_ours: bool) -> Address:
    """Write records for `loaded_ones`; returns their leader, which has to be restarted then."""
    now_ms = time.time_ns() // 1_000_000
    batch = bytes(build_batch(stored_transactions(now_ms)))
    with TransactionSide(address, is_ours=is_ours, client_id=ADMIN) as admin:
        admin.warm_up()
        leader = admin.leader_address((STATE_TOPIC, 0))
        admin.create("loaded", partitions=2)
        admin.write((STATE_TOPIC, 0), batch)
        return leader


@contextmanager
def bystander(side: TransactionSide) -> Iterator[None]:
    """Somebody else's transaction, which goes on undisturbed meanwhile."""
    (watched,) = side.create(unique_name("watched"))
    name, group = unique_name("bystander"), unique_name("group")
    who = side.start(name)
    if side.transaction_version == 2:
        who = side.start(name, who)
    assert side.add(name, who, watched) == [ErrorCode.none]
    assert side.add_offsets(name, who, group, version=3) is ErrorCode.none
    produce = partial(side.produce, watched, who, transactional_id=name, version=11)
    assert produce() is ErrorCode.none
    commit = partial(side.commit_offsets, name, who, group, version=4)
    assert commit({watched: 7}) == [ErrorCode.none]
    side.watched, side.bystander = watched, who
    yield
    assert (side.end_offset(watched), side.end_offset(watched, committed=True)) == (1, 0)
    assert committed(side, group, watched) == [-1]
    assert side.describe(name)[1:3] == ("Ongoing", who)
    assert produce() is ErrorCode.none
    assert commit({watched: 8}) == [ErrorCode.none]
    assert side.end_all(name, who, version=3) == (ErrorCode.none, who)
    wait_until(lambda: committed(side, group, watched) == [8], "the bystander's offsets")
    assert (side.end_offset(watched), side.end_offset(watched, committed=True)) == (3, 3)


def check(side: TransactionSide, story: Story) -> None:
    with bystander(side):
        rows = list(story(side))
    wrong = {what: (answer, expected) for what, answer, expected in rows if answer != expected}
    assert wrong == {}
    assert len(rows) > 3


@pytest.mark.beyond_pypi
@pytest.mark.parametrize("story", STORIES)
def test_kafka_answers(kafka: TransactionSide, story: str) -> None:
    check(kafka, STORIES[story])


@pytest.mark.parametrize("story", STORIES)
def test_our_brokers_answer_the_same(ours: TransactionSide, story: str) -> None:
    check(ours, STORIES[story])


@pytest.mark.beyond_pypi
@pytest.mark.parametrize("level", [0, 1])
def test_kafka_answers_older_clients_the_same_before_version_2(
    kafka_process: KraftProcess, kafka: TransactionSide, level: int
) -> None:
    """Except for what `transaction_version` tells apart."""
    try:
        for each in range(1, level - 1, -1):
            kafka_process.set_feature("transaction.version", each, is_upgrade=False)
        kafka.transaction_version = level
        for story in SOME_OLDER:
            check(kafka, OLDER[story])
    finally:
        kafka.transaction_version = 2
        kafka_process.set_feature("transaction.version", 2, is_upgrade=True)


def records_of_a_life(side: TransactionSide) -> list[tuple[object, ...]]:
    """What is stored of a transactional id, without its producer id and the times."""
    p0, p1 = places_of(side, 2)
    name, state = unique_name("life"), (STATE_TOPIC, 0)
    first = side.end_offset(state)
    who = side.start(name)

    def stored_now() -> list[StoredTransaction]:
        answer = side.leader(state).call(fetch_request(STATE_TOPIC, first, max_bytes=1 << 24))
        values = [
            record.value
            for record in read_records(answer.responses[0].partitions[0].records)
            if record.offset >= first and record.key == transaction_key(name)
        ]
        stored = [read_transaction_value(value) for value in values if value is not None]
        assert [transaction_value(each) for each in stored] == values
        return stored

    def end_all(who: Who, **options: Any) -> None:
        side.end_all(name, who, **options)
        wait_until(lambda: stored_now()[-1].state.is_idle, "the last record of a transaction")

    side.add(name, who, p0, p1)
    end_all(who, version=3)
    side.add_new(name, who, p1)
    end_all(who, commit=False)
    end_all(who.at(1), commit=False)
    side.add(name, who.at(2), p0)
    who = side.start(name, timeout_ms=50_000)
    side.add_offsets(name, who, "group")
    end_all(who, version=3, commit=False)
    stored = stored_now()
    assert {each.producer_id for each in stored} == {who.producer_id}
    topics = {p0[0]: "t"}
    return [
        (
            each.state.label,
            each.producer_epoch,
            each.timeout_ms,
            each.client_version,
            sorted((topics.get(topic, topic), number) for topic, number in each.partitions),
            0 <= each.start_ms <= each.last_update_ms,
            each.previous_producer_id,
            each.next_producer_id,
        )
        for each in stored
    ]


@pytest.mark.beyond_pypi
def test_stored_transactions_equal_kafkas(kafka: TransactionSide, ours: TransactionSide) -> None:
    theirs = records_of_a_life(kafka)
    # Ours writes no last record of a transaction whose successor's record can follow at once.
    expected = [
        each
        for each, following in pairwise([*theirs, ("",)])
        if (each[0], following[0]) != ("CompleteAbort", "Empty")
    ]
    assert records_of_a_life(ours) == expected
    assert len(expected) == len(theirs) - 1
    assert [state for state, *_ in theirs].count("Ongoing") == 4
