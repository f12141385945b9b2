"""ListOffsets from real logs: the offsets, and when a new leader does not know them yet."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import Offset
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.markers import EndMarker
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import (
    WALL_MS,
    a_batch,
    codes_of,
    list_offsets_of,
    offsets_in,
    produced_in,
)
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import produce_to

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
ALONE = a_partition([BROKER])


def append(stage: HandlerStage, *timestamps_ms: int, partition: int = 0) -> None:
    client = stage.connect()
    for timestamp_ms in timestamps_ms:
        client.call(produce_to(("t", partition, a_batch(timestamp_ms=timestamp_ms)), acks=1))


def ask(stage: HandlerStage, timestamp: int, **options: Any) -> tuple[int, int, int, int]:
    """Error code, timestamp, offset and epoch (-1 below version 4) of partition 0."""
    (one,) = offsets_in(stage.connect().call(list_offsets_of("t", (0, timestamp), **options)))
    return one.error_code, one.timestamp, one.offset, getattr(one, "leader_epoch", -1)


def test_list_offsets_returns_offsets_with_leader_epochs(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=2)))
    append(stage, WALL_MS, WALL_MS + 10, WALL_MS + 5)
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=4, partition_epoch=1)))
    append(stage, WALL_MS + 7)
    stage.partition("t").log.advance_log_start_offset(Offset(1))

    assert ask(stage, EARLIEST) == ask(stage, EARLIEST_LOCAL) == (0, -1, 1, 2)
    assert ask(stage, LATEST) == (0, -1, 4, 4)
    assert ask(stage, MAX_TIMESTAMP) == (0, WALL_MS + 10, 1, 2)
    assert ask(stage, LATEST_TIERED) == (0, -1, -1, -1)
    assert ask(stage, 0) == (0, WALL_MS + 10, 1, 2)
    assert ask(stage, WALL_MS + 10) == (0, WALL_MS + 10, 1, 2)
    assert ask(stage, WALL_MS + 11) == (0, -1, -1, -1)


def test_list_offsets_of_an_empty_log(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=3)))

    assert ask(stage, EARLIEST)[:3] == (0, -1, 0)
    assert ask(stage, LATEST) == (0, -1, 0, 3)
    assert ask(stage, MAX_TIMESTAMP) == ask(stage, 0) == (0, -1, -1, -1)


def test_uncommitted_records_are_not_found(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER])))
    append(stage, WALL_MS, WALL_MS + 1)
    stage.follower_fetches(OTHER, stage.partition("t"), 1)

    assert ask(stage, LATEST) == (0, -1, 1, 0)
    assert ask(stage, WALL_MS) == ask(stage, MAX_TIMESTAMP) == (0, WALL_MS, 0, 0)
    assert ask(stage, WALL_MS + 1) == (0, -1, -1, -1)


# -- a new leader (KIP-207) ------------------------------------------------------------------------


@pytest.fixture
def new_leader(stage: HandlerStage) -> HandlerStage:
    """A new leader with three records from its time as a follower, the first of them committed."""
    both = [BROKER, OTHER]
    stage.update(a_topic("t", a_partition(both)))
    append(stage, WALL_MS, WALL_MS + 2, WALL_MS + 1)
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    stage.update(a_topic("t", a_partition(both, leader=OTHER, leader_epoch=1, partition_epoch=1)))
    stage.update(a_topic("t", a_partition(both, leader_epoch=2, partition_epoch=2)))
    return stage


@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, WALL_MS + 1, WALL_MS + 3])
def test_new_leader_refuses_while_its_high_watermark_may_be_outdated(
    new_leader: HandlerStage, timestamp: int
) -> None:
    for version in range(7 if timestamp == MAX_TIMESTAMP else 1, 11):
        code = ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available
        assert ask(new_leader, timestamp, version=version) == (code, -1, -1, -1)


def test_new_leader_returns_offsets_that_cannot_change(new_leader: HandlerStage) -> None:
    assert ask(new_leader, EARLIEST) == (0, -1, 0, 0)
    assert ask(new_leader, WALL_MS) == (0, WALL_MS, 0, 0)


def test_new_leader_answers_after_its_followers_have_fetched(new_leader: HandlerStage) -> None:
    new_leader.follower_fetches(OTHER, new_leader.partition("t"), 3)

    assert ask(new_leader, LATEST) == (0, -1, 3, 2)
    assert ask(new_leader, WALL_MS + 3) == (0, -1, -1, -1)
    assert ask(new_leader, MAX_TIMESTAMP) == (0, WALL_MS + 2, 1, 0)


def test_leader_answers_when_the_high_watermark_is_in_its_own_epoch(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER])))
    append(stage, WALL_MS)

    assert ask(stage, LATEST) == (0, -1, 0, 0)


@pytest.fixture
def new_leader_in_transaction(tmp_path: Path) -> Iterator[HandlerStage]:
    """A new leader whose second record began a transaction; its third record is uncommitted."""
    unverified = {"transaction.partition.verification.enable": "false"}
    both = [BROKER, OTHER]
    with HandlerStage(tmp_path / "data", unverified) as stage:
        stage.update(a_topic("t", a_partition(both)))
        append(stage, WALL_MS)
        begun = build_batch(
            [NewRecord(b"", None, WALL_MS + 1)],
            producer=ProducerIdentity(7, 0, 0),
            is_transactional=True,
        )
        asked = produce_to(("t", 0, bytes(begun)), acks=1, transactional_id="open")
        assert codes_of(produced_in(stage.connect().call(asked))) == [0]
        append(stage, WALL_MS + 2)
        stage.follower_fetches(OTHER, stage.partition("t"), 2)
        elsewhere = a_partition(both, leader=OTHER, leader_epoch=1, partition_epoch=1)
        stage.update(a_topic("t", elsewhere))
        stage.update(a_topic("t", a_partition(both, leader_epoch=2, partition_epoch=2)))
        yield stage


def test_new_leader_does_not_know_the_last_stable_offset_either(
    new_leader_in_transaction: HandlerStage,
) -> None:
    stage = new_leader_in_transaction
    unavailable = (ErrorCode.offset_not_available, -1, -1, -1)
    committed = partial(ask, stage, isolation_level=1)

    assert committed(LATEST) == ask(stage, LATEST) == unavailable
    assert committed(MAX_TIMESTAMP) == ask(stage, MAX_TIMESTAMP) == unavailable
    assert committed(LATEST, version=4)[0] == ErrorCode.leader_not_available
    assert committed(EARLIEST) == (0, -1, 0, 0)
    assert committed(WALL_MS) == (0, WALL_MS, 0, 0), "below the open transaction"
    assert ask(stage, WALL_MS + 1) == (0, WALL_MS + 1, 1, 0), "below the high watermark"
    assert committed(WALL_MS + 1) == committed(WALL_MS + 2) == unavailable
    assert committed(WALL_MS + 3) == ask(stage, WALL_MS + 3) == unavailable


def test_new_leader_answers_with_the_last_stable_offset_after_its_followers_have_fetched(
    new_leader_in_transaction: HandlerStage,
) -> None:
    stage = new_leader_in_transaction
    partition = stage.partition("t")
    committed = partial(ask, stage, isolation_level=1)

    stage.follower_fetches(OTHER, partition, 3)
    assert (ask(stage, LATEST), committed(LATEST)) == ((0, -1, 3, 2), (0, -1, 1, 2))
    assert committed(WALL_MS + 1) == (0, -1, -1, -1)
    marker = EndMarker(7, 0, 0, is_commit=True)
    partition.append_marker(marker, stage.clock.wall_ms(), stage.loop.now_ms)
    assert committed(LATEST) == (0, -1, 1, 2), "the marker is not committed"
    stage.follower_fetches(OTHER, partition, 4)
    assert committed(LATEST) == (0, -1, 4, 2)
    assert committed(WALL_MS + 1) == (0, WALL_MS + 1, 1, 0)


# -- refusals --------------------------------------------------------------------------------------


def test_list_offsets_compares_the_clients_leader_epoch(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER], leader_epoch=5)))

    codes = [ask(stage, LATEST, leader_epoch=epoch)[0] for epoch in (-1, 4, 5, 6)]

    fenced, unknown = ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch
    assert codes == [0, fenced, 0, unknown]


def test_followers_and_brokers_without_a_replica_refuse(stage: HandlerStage) -> None:
    both = [BROKER, OTHER]
    stage.update(
        a_topic("t", a_partition(both, leader=OTHER), a_partition([OTHER]), a_partition(both))
    )
    client = stage.connect()

    answer = client.call(list_offsets_of("t", *((n, LATEST) for n in range(4))))

    moved, unknown = ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition
    assert codes_of(offsets_in(answer)) == [moved, moved, 0, unknown]


def test_repeated_partition_is_refused_once(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, ALONE))

    answer = stage.connect().call(list_offsets_of("t", (0, LATEST), (1, LATEST), (0, EARLIEST)))

    twice = ErrorCode.invalid_request
    assert codes_of(offsets_in(answer)) == [twice, 0]


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(LATEST, 1), (EARLIEST, 1), (MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)],
)
def test_special_timestamps_are_refused_before_their_version(
    stage: HandlerStage, timestamp: int, first_version: int
) -> None:
    stage.update(a_topic("t", ALONE))

    for version in range(1, 11):
        code = ask(stage, timestamp, version=version)[0]
        assert code == (0 if version >= first_version else ErrorCode.unsupported_version)


@pytest.mark.parametrize("timestamp", [-6, -77, -(2**63)])
def test_unknown_negative_timestamps_are_refused(stage: HandlerStage, timestamp: int) -> None:
    stage.update(a_topic("t", ALONE))

    assert ask(stage, timestamp, version=10)[0] == ErrorCode.unsupported_version


@pytest.mark.parametrize("lost", [".log", ".timeindex"])
def test_unreadable_partition_does_not_affect_the_others(tmp_path: Path, lost: str) -> None:
    topic = a_topic("t", ALONE, ALONE, configs={"segment.bytes": "300"})
    with HandlerStage(tmp_path) as before:
        before.update(topic)
        for partition in (0, 1):
            append(before, *range(WALL_MS, WALL_MS + 12), partition=partition)
        closed = before.partition("t").log.segments[0].file.path
        before.table.close()

    with HandlerStage(tmp_path) as stage:
        stage.update(topic)
        closed.with_suffix(lost).unlink()
        client = stage.connect()
        answer = client.call(list_offsets_of("t", (0, WALL_MS + 1), (1, WALL_MS + 1)))

        assert client.closed_because is None
        assert codes_of(offsets_in(answer)) == [ErrorCode.kafka_storage_error, 0]
