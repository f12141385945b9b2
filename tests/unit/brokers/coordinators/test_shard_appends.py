"""Appends of a shard: one batch per turn, transactions apart, outcomes in order, late ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.coordinators.shard_appends import ShardAppends
from cluster.coordinator.shards.effects import Append, CoordinatorRecord
from cluster.model.errors import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from cluster.records.batch import BatchHeader, Compression, batches_of
from cluster.records.markers import EndMarker
from cluster.records.reader import read_records
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.unit.brokers.coordinators.runtime_stage import coordinator_options, coordinator_ports

TIMEOUT_MS = 5_000


class Told:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, ErrorCode, bool | None]] = []
        self.late: list[int] = []
        self.marked: list[EndMarker] = []
        self.then = lambda _append_id: None

    def on_appended(self, append_id: int, code: ErrorCode, *, is_in_log: bool | None) -> None:
        self.outcomes.append((append_id, code, is_in_log))
        self.then(append_id)

    def on_append_late(self, append_id: int) -> None:
        self.late.append(append_id)

    def on_marker(self, marker: EndMarker) -> None:
        self.marked.append(marker)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        yield made


@pytest.fixture
def told() -> Told:
    return Told()


def appends_to(
    stage: HandlerStage, told: Told, codec: Compression = Compression.NONE
) -> ShardAppends:
    options = coordinator_options("t", append_timeout_ms=TIMEOUT_MS, codec=codec)
    return ShardAppends(stage.partition("t"), options, coordinator_ports(stage), told)


def an_append(number: int, size_bytes: int = 1, count: int = 1) -> Append:
    record = CoordinatorRecord(b"key", b"v" * size_bytes)
    return Append(number, (record,) * count)


def a_transactional_append(
    number: int, count: int = 1, producer: int = 7, epoch: int = 0
) -> Append:
    return an_append(number, count=count)._replace(producer_id=producer, producer_epoch=epoch)


def headers(stage: HandlerStage) -> list[BatchHeader]:
    """The headers of all batches of the partition."""
    log = stage.partition("t").log
    if log.log_end_offset == 0:
        return []
    part = log.read(
        log.log_start_offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True
    )
    return [header for header, _ in batches_of(part.view())]


def batch_sizes(stage: HandlerStage) -> list[int]:
    """How many records each batch of the partition has."""
    return [header.record_count for header in headers(stage)]


def producers(stage: HandlerStage) -> list[tuple[int, int, int, bool]]:
    """Producer id, epoch, base sequence, and whether it is transactional, of each batch."""
    return [
        (each.producer_id, each.producer_epoch, each.base_sequence, each.is_transactional)
        for each in headers(stage)
    ]


def alone(stage: HandlerStage, **configs: str) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=configs))


def both(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER])))


def done(*numbers: int) -> list[tuple[int, ErrorCode, bool | None]]:
    return [(number, ErrorCode.none, None) for number in numbers]


def test_appends_of_one_turn_share_a_batch(stage: HandlerStage, told: Told) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    for number in (1, 2, 3):
        appends.add(an_append(number, count=2))
    assert batch_sizes(stage) == []
    stage.turn()
    assert batch_sizes(stage) == [6]
    assert told.outcomes == done(1, 2, 3)
    appends.add(an_append(4))
    stage.turn()
    assert batch_sizes(stage) == [6, 1]


def test_a_batch_ends_before_the_append_that_would_make_it_too_large(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage, **{"max.message.bytes": "1000"})
    appends = appends_to(stage, told)
    appends.add(an_append(1, 150, count=2))
    appends.add(an_append(2, 2_000))
    appends.add(an_append(3, 150, count=4))
    appends.add(an_append(4, 150))
    stage.turn()
    assert batch_sizes(stage) == [2, 5]
    too_large = (2, ErrorCode.message_too_large, None)
    assert told.outcomes == [*done(1), too_large, *done(3, 4)]


def test_a_transactional_append_gets_a_batch_with_its_producer(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    appends.add(an_append(1))
    appends.add(a_transactional_append(2, producer=7, epoch=3))
    appends.add(an_append(3))
    appends.add(an_append(4))
    stage.turn()
    nobody = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, False)
    assert producers(stage) == [nobody, (7, 3, 0, True), nobody]
    assert batch_sizes(stage) == [1, 1, 2]
    assert told.outcomes == done(1, 2, 3, 4)


def test_sequences_of_a_producer_continue_until_its_epoch_changes(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    appends.add(a_transactional_append(1, count=2))
    appends.add(a_transactional_append(2, count=2))  # no repetition of the first
    appends.add(a_transactional_append(3, producer=8))
    stage.turn()
    appends_of_successor = appends_to(stage, told)  # another shard, after an election
    appends_of_successor.add(a_transactional_append(4))
    appends_of_successor.add(a_transactional_append(5, epoch=1))
    stage.turn()
    assert producers(stage) == [
        (7, 0, 0, True),
        (7, 0, 2, True),
        (8, 0, 0, True),
        (7, 0, 4, True),
        (7, 1, 0, True),
    ]
    assert told.outcomes == done(1, 2, 3, 4, 5)


def test_a_transactional_append_of_a_fenced_epoch_is_refused(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    appends.add(a_transactional_append(1, epoch=1))
    appends.add(a_transactional_append(2, epoch=0))
    appends.add(an_append(3))
    stage.turn()
    assert batch_sizes(stage) == [1, 1]
    refused = (2, ErrorCode.invalid_producer_epoch, None)
    assert told.outcomes == [*done(1), refused, *done(3)]


def test_a_marker_follows_what_was_added_before_and_is_told_once(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    marker = EndMarker(7, 0, 1, is_commit=True)
    answered: list[ErrorCode] = []
    appends.add(a_transactional_append(1))
    appends.add_marker(marker, answered.append)
    appends.add(a_transactional_append(2))
    stage.turn()
    assert producers(stage) == [(7, 0, 0, True), (7, 0, NO_SEQUENCE, True), (7, 0, 1, True)]
    assert (told.outcomes, told.marked, answered) == (done(1, 2), [marker], [ErrorCode.none])


def test_a_marker_of_a_fenced_epoch_is_refused(stage: HandlerStage, told: Told) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    answered: list[ErrorCode] = []
    appends.add(a_transactional_append(1, epoch=1))
    appends.add_marker(EndMarker(7, 0, 1, is_commit=True), answered.append)
    stage.turn()
    assert (told.marked, answered) == ([], [ErrorCode.invalid_producer_epoch])


def test_markers_of_a_closed_shard_are_answered(stage: HandlerStage, told: Told) -> None:
    both(stage)
    appends = appends_to(stage, told)
    answered: list[ErrorCode] = []
    appends.add_marker(EndMarker(7, 0, 1, is_commit=True), answered.append)
    appends.close()
    assert answered == [ErrorCode.not_leader_or_follower]
    appends.add_marker(EndMarker(8, 0, 1, is_commit=True), answered.append)
    assert answered == [ErrorCode.not_leader_or_follower] * 2
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    assert (len(answered), told.marked) == (2, [])


def test_a_marker_is_in_the_log_before_what_the_turn_brings_afterwards(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    appends.add(a_transactional_append(1))
    appends.add_marker(EndMarker(7, 0, 1, is_commit=True), lambda _code: None)
    assert not stage.partition("t").log.producers.has_open_transaction(7, 0)
    assert [each[2] for each in producers(stage)] == [0, NO_SEQUENCE]


def test_records_are_compressed_with_the_codec_of_the_options(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage)
    appends_to(stage, told, Compression.GZIP).add(an_append(1, 100))
    stage.turn()
    log = stage.partition("t").log
    part = log.read(
        log.log_start_offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True
    )
    ((header, batch),) = batches_of(part.view())
    assert header.compression is Compression.GZIP
    (record,) = read_records(batch)
    assert (record.key, record.value) == (b"key", b"v" * 100)
    assert record.timestamp_ms == stage.clock.wall_ms()


def test_an_append_without_records_is_confirmed_after_earlier_appends(
    stage: HandlerStage, told: Told
) -> None:
    both(stage)
    appends = appends_to(stage, told)
    appends.add(an_append(1))
    stage.turn()
    appends.add(Append(2, ()))
    stage.turn()
    assert told.outcomes == []
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    assert told.outcomes == done(1, 2)
    assert batch_sizes(stage) == [1]


def test_a_refusal_is_reported_after_the_outcomes_of_earlier_appends(
    stage: HandlerStage, told: Told
) -> None:
    configs = {"min.insync.replicas": "2"}
    stage.update(a_topic("t", a_partition([BROKER, OTHER]), configs=configs))
    appends = appends_to(stage, told)
    appends.add(an_append(1))
    stage.turn()
    shrunk = a_partition([BROKER, OTHER], isr=[BROKER], partition_epoch=1)
    stage.send_update(a_topic("t", shrunk, configs=configs))
    appends.add(an_append(2))
    stage.turn()
    stage.turn()
    assert told.outcomes == [
        (1, ErrorCode.not_enough_replicas_after_append, True),
        (2, ErrorCode.not_enough_replicas, None),
    ]


def test_an_outcome_is_reported_before_that_of_an_append_it_caused(
    stage: HandlerStage, told: Told
) -> None:
    alone(stage)
    appends = appends_to(stage, told)
    told.then = lambda number: appends.add(an_append(number + 1)) if number < 3 else None
    appends.add(an_append(1))
    for _ in range(4):
        stage.turn()
    assert told.outcomes == done(1, 2, 3)


def test_an_append_is_reported_late_once_when_it_is_not_confirmed_in_time(
    stage: HandlerStage, told: Told
) -> None:
    both(stage)
    appends = appends_to(stage, told)
    appends.add(an_append(1))
    stage.turn()
    stage.pass_time(TIMEOUT_MS // 2)
    appends.add(an_append(2))
    stage.turn()
    stage.pass_time(TIMEOUT_MS // 2)
    assert (told.late, told.outcomes) == ([1], [])
    stage.pass_time(TIMEOUT_MS // 2)
    assert told.late == [1, 2]
    stage.pass_time(TIMEOUT_MS)
    stage.follower_fetches(OTHER, stage.partition("t"), 2)
    assert (told.late, told.outcomes) == ([1, 2], done(1, 2))


def test_a_confirmed_append_is_not_reported_late(stage: HandlerStage, told: Told) -> None:
    both(stage)
    appends = appends_to(stage, told)
    appends.add(an_append(1))
    stage.turn()
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    stage.pass_time(2 * TIMEOUT_MS)
    appends.add(an_append(2))
    stage.turn()
    stage.pass_time(TIMEOUT_MS - 1)
    assert told.late == []
    stage.pass_time(1)
    assert told.late == [2]


def test_close_stops_appends_and_reports(stage: HandlerStage, told: Told) -> None:
    both(stage)
    appends = appends_to(stage, told)
    appends.add(an_append(1))
    stage.turn()
    appends.add(an_append(2))
    appends.close()
    stage.turn()
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    stage.pass_time(2 * TIMEOUT_MS)
    assert (told.outcomes, told.late, batch_sizes(stage)) == ([], [], [1])


def test_waiting_appends_fail_when_leadership_is_lost(stage: HandlerStage, told: Told) -> None:
    both(stage)
    appends = appends_to(stage, told)
    appends.add(an_append(1))
    stage.turn()
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic("t", moved))
    assert told.outcomes == [(1, ErrorCode.not_leader_or_follower, None)]
