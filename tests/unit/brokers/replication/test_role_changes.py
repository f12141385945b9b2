"""Updates about many partitions: a part of each turn, clients in between, newest state wins."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.protocol.peer.control import Acknowledged
from tests.support.cluster_states import a_partition, a_topic
from tests.support.fake_clock import FakeClock
from tests.support.handler_requests import a_batch, codes_of, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import metadata_request, produce_to

MANY = 100
BOTH = [BROKER, OTHER]


class TickingClock(FakeClock):
    """Every look at it takes half a millisecond, so a slice of 2 ms has four steps."""

    def __init__(self) -> None:
        super().__init__()
        self._us = 0

    def monotonic_us(self) -> int:
        self._us += 500
        return self._us


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data", clock=TickingClock()) as made:
        yield made


def many(**options: Any) -> Any:
    return a_topic("many", *(a_partition(BOTH, **options) for _ in range(MANY)))


def led(stage: HandlerStage) -> int:
    return sum(partition.leader is not None for partition in stage.table)


def turn_until_answered(stage: HandlerStage, replies: list[Any]) -> None:
    for _ in range(3 * MANY):  # a turn has time for a step at least, of one of three updates
        if replies:
            return
        stage.turn()
    raise AssertionError("no end of the update")


def test_a_turn_takes_few_roles_and_the_update_is_acknowledged_with_the_last(
    stage: HandlerStage,
) -> None:
    replies = stage.send_update(many())
    taken = [led(stage)]
    while not replies:
        stage.turn()
        taken.append(led(stage))

    steps = [after - before for before, after in pairwise(taken)]
    assert taken[0] < 20
    assert max(steps) <= 4
    assert taken[-1] == MANY
    assert replies == [Acknowledged(ErrorCode.none)]


def test_a_bystander_is_answered_between_two_slices(stage: HandlerStage) -> None:
    stage.update(a_topic("mine", a_partition([BROKER])))
    client = stage.connect()
    replies = stage.send_update(many())

    answered = 0
    while not replies:
        stage.turn()
        before = led(stage)
        assert codes_of(produced_in(client.call(produce_to(("mine", 0, a_batch()))))) == [0]
        assert led(stage) - before <= 4
        answered += 1

    assert answered >= MANY // 8


def test_a_partition_whose_role_is_not_taken_yet_is_refused_and_known(stage: HandlerStage) -> None:
    stage.send_update(many())
    client = stage.connect()
    assert stage.table.find(TopicPartition("many", MANY - 1)) is None

    client.send(produce_to(("many", MANY - 1, a_batch())))
    assert codes_of(produced_in(client.receive())) == [ErrorCode.not_leader_or_follower]
    client.send(metadata_request("many"))
    assert len(client.receive().topics[0].partitions) == MANY


def test_a_newer_update_takes_the_place_of_what_an_older_one_has_not_done_yet(
    stage: HandlerStage,
) -> None:
    first = stage.send_update(many())
    second = stage.send_update(many(leader=OTHER, leader_epoch=1))
    turn_until_answered(stage, first)
    turn_until_answered(stage, second)

    assert len(stage.table) == MANY
    assert led(stage) == 0
    assert {partition.leader_epoch for partition in stage.table} == {1}


def test_a_small_update_does_not_wait_for_a_large_one(stage: HandlerStage) -> None:
    large = stage.send_update(many())
    assert stage.send_update(a_topic("small", a_partition(BOTH))) == [Acknowledged(ErrorCode.none)]
    assert stage.partition("small").leader is not None
    assert large == []


def test_a_topic_that_is_deleted_half_made_leaves_nothing(stage: HandlerStage) -> None:
    created = stage.send_update(many())
    deleted = stage.send_update(deleted=("many",))
    turn_until_answered(stage, deleted)
    turn_until_answered(stage, created)

    assert len(stage.table) == 0
    assert stage.directory.partition_directories() == {}


@pytest.mark.slow
def test_records_for_a_new_topic_never_get_into_the_old_ones_log(stage: HandlerStage) -> None:
    turn_until_answered(stage, stage.send_update(many()))
    client = stage.connect()
    client.call(produce_to(("many", MANY - 1, a_batch()), acks=1))
    anew = many()
    anew.topic_id = a_topic("another").topic_id

    replies = stage.send_update(anew)
    client.send(produce_to(("many", MANY - 1, a_batch())))
    assert codes_of(produced_in(client.receive())) == [ErrorCode.not_leader_or_follower]
    turn_until_answered(stage, replies)

    assert {partition.topic_id for partition in stage.table} == {anew.topic_id}
    assert stage.partition("many", MANY - 1).log.log_end_offset == 0


def test_the_segment_of_a_new_replica_is_as_old_as_the_replica_and_not_rolled_at_once(
    stage: HandlerStage,
) -> None:
    """Records without timestamps: then a segment's age counts from when it was made."""
    stage.update(a_topic("new", a_partition([BROKER])))
    client = stage.connect()
    for _ in range(3):
        client.call(produce_to(("new", 0, a_batch(timestamp_ms=-1)), acks=1))

    assert len(stage.partition("new").log.segments) == 1


def test_a_lost_session_ends_what_is_under_way(stage: HandlerStage) -> None:
    replies = stage.send_update(many())
    stage.changes.on_session_lost()
    for _ in range(MANY):
        stage.turn()

    assert led(stage) == 0
    assert replies == []
    assert stage.slices.is_idle


def test_the_controller_is_told_after_a_while_that_a_long_update_has_come(
    stage: HandlerStage,
) -> None:
    replies = stage.send_update(many())
    stage.pass_time(1_000)
    assert replies == [Acknowledged(ErrorCode.none)]
    for _ in range(MANY):
        stage.turn()
    assert (led(stage), replies) == (MANY, [Acknowledged(ErrorCode.none)])


@pytest.mark.slow
def test_thousands_of_new_partitions_have_no_file_open(tmp_path: Path) -> None:
    with HandlerStage(tmp_path / "data") as stage:
        before = len(list(Path("/proc/self/fd").iterdir()))
        stage.update(a_topic("many", *(a_partition([BROKER]) for _ in range(300))))
        assert len(stage.table) == 300
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
