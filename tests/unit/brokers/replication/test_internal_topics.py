"""Internal topics: callbacks when an append is committed, and when leadership begins or ends."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.replication.own_appends import AppendOutcome
from cluster.log.files import LogFiles
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage

T0 = TopicPartition("t", 0)
ALL = [BROKER, OTHER, THIRD]
COMMITTED = AppendOutcome(ErrorCode.none, is_appended=True)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        yield made


def led_by(leader: int, epoch: int = 0):
    return a_topic("t", a_partition(ALL, leader=leader, leader_epoch=epoch, partition_epoch=epoch))


def append(stage: HandlerStage) -> list[AppendOutcome]:
    outcomes: list[AppendOutcome] = []
    stage.core.replication.internal_topics.appends.append(
        T0, memoryview(a_batch()), outcomes.append
    )
    return outcomes


def test_a_batch_is_committed_when_every_replica_in_sync_has_it(stage):
    stage.update(led_by(BROKER))
    first, second = append(stage), append(stage)
    stage.follower_fetches(OTHER, stage.partition("t"), 2)
    assert (first, second) == ([], [])

    stage.follower_fetches(THIRD, stage.partition("t"), 1)
    assert (first, second) == ([COMMITTED], [])
    stage.follower_fetches(THIRD, stage.partition("t"), 2)
    assert (first, second) == ([COMMITTED], [COMMITTED])


def test_a_leader_that_is_alone_has_committed_at_once(stage):
    stage.update(a_topic("t", a_partition([BROKER])))
    assert append(stage) == [COMMITTED]


def test_a_batch_whose_sync_fails_is_in_the_log_and_sent_to_followers(stage, monkeypatch):
    stage.update(a_topic("t", a_partition(ALL), configs={"flush.messages": "1"}))
    told: list[TopicPartition] = []
    stage.core.replication.events.subscribe(on_news=told.extend)

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(LogFiles, "sync_data", staticmethod(refuse))
        (outcome,) = append(stage)
    stage.turn()
    assert (outcome.code, outcome.is_appended) == (ErrorCode.kafka_storage_error, True)
    assert told == [T0]


@pytest.mark.parametrize("leader", [None, OTHER])
def test_append_is_refused_when_this_broker_does_not_lead(stage, leader):
    if leader is not None:
        stage.update(led_by(leader))
    (outcome,) = append(stage)
    assert outcome.code is ErrorCode.not_leader_or_follower
    assert not outcome.is_appended


def test_a_lost_leadership_tells_that_the_batch_may_yet_be_committed(stage):
    stage.update(led_by(BROKER))
    outcomes = append(stage)
    stage.update(led_by(OTHER, 1))
    (outcome,) = outcomes
    assert outcome.code is ErrorCode.not_leader_or_follower
    assert outcome.is_appended


def test_a_batch_of_an_earlier_epoch_is_never_committed_by_a_later_one(stage):
    stage.update(led_by(BROKER))
    outcomes = append(stage)
    stage.update(led_by(BROKER, 2))
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    stage.follower_fetches(THIRD, stage.partition("t"), 1)
    assert [outcome.code for outcome in outcomes] == [ErrorCode.not_leader_or_follower]


class Keeper:
    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def on_elected(self, partition, epoch):
        self.told.append(("load", epoch))

    def on_resigned(self, partition):
        self.told.append(("unload", partition.partition))

    def take(self):
        told, self.told = self.told, []
        return told


def test_a_keeper_loads_when_this_broker_begins_to_lead_and_unloads_when_it_ends(stage):
    keeper = Keeper()
    stage.core.replication.internal_topics.keep("t", keeper)
    stage.update(led_by(OTHER), a_topic("u", a_partition([BROKER])))
    assert keeper.take() == []

    stage.update(led_by(BROKER, 1))
    assert keeper.take() == [("load", 1)]
    stage.update(led_by(BROKER, 2))
    assert keeper.take() == [], "nobody else has led it"
    stage.update(led_by(BROKER, 4))
    assert keeper.take() == [("unload", 0), ("load", 4)]
    stage.update(led_by(OTHER, 5))
    assert keeper.take() == [("unload", 0)]


def test_a_keeper_unloads_when_the_session_is_lost_or_the_topic_is_deleted(stage):
    keeper = Keeper()
    stage.core.replication.internal_topics.keep("t", keeper)
    stage.update(led_by(BROKER, 1))
    stage.changes.on_session_lost()
    assert keeper.take() == [("load", 1), ("unload", 0)]
    stage.update(led_by(BROKER, 2))
    stage.update(deleted=("t",))
    assert keeper.take() == [("load", 2), ("unload", 0)]
