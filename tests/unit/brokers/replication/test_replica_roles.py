"""Roles that the controller's updates assign: from where replicas fetch, and who is notified."""

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.replication import replication_link
from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.model.clocks import WallMs
from cluster.model.cluster import BrokerRegistration
from cluster.model.errors import ErrorCode, StorageFailed
from cluster.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.handler_requests import a_batch, codes_of, produced_in
from tests.support.handler_stage import BROKER, LAG_MS, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import produce_to

ALL = [BROKER, OTHER, THIRD]
T0 = TopicPartition("t", 0)


class RecordingLink:
    """The replication link: what was followed, and what the leader's side was told."""

    def __init__(self) -> None:
        self.did: list[tuple[Any, ...]] = []

    def follow(self, partition: Any, leader: int, endpoint: str) -> None:
        self.did.append(("follow", partition.id.topic, leader, endpoint))

    def unfollow(self, partition_id: TopicPartition) -> None:
        self.did.append(("unfollow", partition_id.topic))

    def on_news(self, partitions: Collection[TopicPartition]) -> None:
        self.did += [("appended", partition_id.topic) for partition_id in partitions]

    def on_role_changed(self, partition_id: TopicPartition) -> None:
        self.did.append(("role", partition_id.topic))

    def on_log_start_moved(self, partition_id: TopicPartition) -> None:
        self.did.append(("log start", partition_id.topic))

    def on_high_watermark_moved(self, partition_id: TopicPartition) -> None:
        self.did.append(("watermark", partition_id.topic))

    def ask_for_positions(self, partition_id: TopicPartition, followers: set[int]) -> None:
        self.did.append(("positions", partition_id.topic, sorted(followers)))

    def on_tick(self, now_ms: int) -> None:
        """The link's own timer."""

    def on_way_lost(self, way: object) -> None:
        """No follower has a local connection."""

    def take(self) -> list[tuple[Any, ...]]:
        did, self.did = self.did, []
        return did


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> RecordingLink:
    """Records in place of the link of a stage that is made afterwards."""
    made = RecordingLink()
    monkeypatch.setattr(replication_link, "LeaderFetches", lambda *_, **__: made)
    for name in ("follow", "unfollow"):
        record = getattr(made, name)
        monkeypatch.setattr(
            replication_link.ReplicationLink,
            name,
            lambda _link, *told, record=record: record(*told),
        )
    return made


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[HandlerStage]:
    if "link" in request.fixturenames:
        request.getfixturevalue("link")
    with HandlerStage(tmp_path / "data") as made:
        yield made


def led_by(leader: int, epoch: int, **options: Any) -> Any:
    state = a_partition(ALL, leader=leader, leader_epoch=epoch, partition_epoch=epoch, **options)
    return a_topic("t", state)


def brokers_with(other_epoch: int) -> dict[BrokerId, BrokerRegistration]:
    return {BrokerId(OTHER): a_broker(OTHER, epoch=other_epoch)}


def test_a_follower_fetches_from_the_leader(stage: HandlerStage, link: RecordingLink) -> None:
    stage.update(led_by(OTHER, 0))

    assert link.take() == [("follow", "t", OTHER, "replication-2-100"), ("role", "t")]
    stage.update(led_by(OTHER, 0))
    assert link.take() == []


def test_a_new_epoch_is_followed_anew(stage: HandlerStage, link: RecordingLink) -> None:
    stage.update(led_by(OTHER, 0))
    link.take()

    stage.update(led_by(OTHER, 1))
    assert ("follow", "t", OTHER, "replication-2-100") in link.take()
    stage.update(led_by(THIRD, 2))
    assert ("follow", "t", THIRD, "replication-3-100") in link.take()


def test_an_old_update_changes_nothing(stage: HandlerStage, link: RecordingLink) -> None:
    stage.update(led_by(OTHER, 3))
    link.take()

    stage.update(led_by(BROKER, 2))

    assert stage.partition("t").leader is None
    assert link.take() == []


def test_a_leader_that_restarted_is_followed_where_it_is_now(
    stage: HandlerStage, link: RecordingLink
) -> None:
    stage.update(led_by(OTHER, 0))
    link.take()

    stage.roles.follow_where_it_is(T0, {})
    stage.roles.follow_where_it_is(T0, brokers_with(other_epoch=100))
    assert link.take() == []
    stage.roles.follow_where_it_is(T0, brokers_with(other_epoch=200))

    assert link.take() == [("follow", "t", OTHER, "replication-2-200")]


def test_a_leader_that_is_not_there_yet_is_followed_when_it_comes(
    stage: HandlerStage, link: RecordingLink
) -> None:
    stage.update(led_by(OTHER, 0), brokers=(BROKER, THIRD))
    assert link.take() == [("role", "t")]

    stage.update(brokers=(BROKER, OTHER, THIRD))

    assert link.take() == [("follow", "t", OTHER, "replication-2-100")]


@pytest.mark.parametrize("leader", [BROKER, -1])
def test_replica_follows_nobody_when_it_leads_or_has_no_leader(
    stage: HandlerStage, link: RecordingLink, leader: int
) -> None:
    stage.update(led_by(OTHER, 0))
    link.take()

    stage.update(led_by(leader, 1))

    assert link.take() == [("unfollow", "t"), ("role", "t")]


def test_a_replica_that_is_not_here_is_made_when_somebody_leads(stage: HandlerStage) -> None:
    """Its disk may not be mounted, and have its log when it is again."""
    stage.update(led_by(-1, 1))
    assert stage.core.storage.table.find(T0) is None
    stage.update(led_by(OTHER, 2))
    assert stage.core.storage.table.find(T0) is not None


def test_a_deleted_topic_is_followed_no_more(stage: HandlerStage, link: RecordingLink) -> None:
    stage.update(led_by(OTHER, 0))
    link.take()

    stage.update(deleted=("t",))

    assert link.take() == [("unfollow", "t"), ("role", "t")]
    assert len(stage.table) == 0


def test_a_lost_session_ends_every_role(stage: HandlerStage, link: RecordingLink) -> None:
    stage.update(led_by(OTHER, 0), a_topic("mine", a_partition(ALL)))
    client = stage.connect()
    client.send(produce_to(("mine", 0, a_batch())))
    link.take()

    stage.changes.on_session_lost()

    assert ("unfollow", "t") in link.take()
    assert all(partition.leader is None for partition in stage.table)
    assert codes_of(produced_in(client.receive())) == [ErrorCode.not_leader_or_follower]
    # The same state again, after the registration: the roles are taken again.
    stage.update(led_by(OTHER, 0), a_topic("mine", a_partition(ALL)))
    assert stage.partition("mine").leader is not None
    assert ("follow", "t", OTHER, "replication-2-100") in link.take()


def test_followers_are_woken_once_a_turn(stage: HandlerStage, link: RecordingLink) -> None:
    stage.update(led_by(BROKER, 0))
    link.take()
    client = stage.connect()
    for _ in range(3):
        client.send(produce_to(("t", 0, a_batch()), acks=1))

    assert link.take() == []
    stage.turn()

    assert link.take() == [("appended", "t")]


def test_a_committed_batch_is_told(stage: HandlerStage, link: RecordingLink) -> None:
    stage.update(led_by(BROKER, 0, isr=[BROKER, OTHER]))
    stage.connect().call(produce_to(("t", 0, a_batch()), acks=1))
    link.take()

    stage.follower_fetches(OTHER, stage.partition("t"), 1)

    assert link.take() == [("watermark", "t")]


def test_outsiders_are_asked_where_they_are_and_laggards_leave(
    stage: HandlerStage, link: RecordingLink
) -> None:
    stage.update(led_by(BROKER, 0, isr=[BROKER, OTHER]))
    stage.connect().call(produce_to(("t", 0, a_batch()), acks=1))
    link.take()

    stage.clock.pass_time(LAG_MS)
    stage.look_round()
    assert link.take() == [("positions", "t", [THIRD])]
    assert stage.proposals == []
    stage.clock.pass_time(1)
    stage.look_round()

    ((partition, proposal),) = stage.proposals
    assert (partition, proposal.isr) == (T0, (BROKER,))


@pytest.mark.parametrize("answer", ["state", ErrorCode.invalid_update_version, None])
def test_an_answer_to_a_proposal_of_an_earlier_epoch_is_nothing(
    stage: HandlerStage, answer: Any
) -> None:
    stage.update(led_by(BROKER, 4))
    old = IsrProposal((BrokerId(BROKER),), LeaderEpoch(3), PartitionEpoch(3))
    outcome = a_partition(ALL, isr=[BROKER], partition_epoch=99) if answer == "state" else answer

    stage.isr_proposals.on_answered(T0, old, outcome)
    stage.isr_proposals.on_answered(TopicPartition("none", 0), old, outcome)

    leader = stage.partition("t").leader
    assert leader is not None
    assert leader.isr == tuple(ALL)


def test_leader_adopts_other_replicas_of_its_epoch_and_commits_without_the_removed_one(
    stage: HandlerStage,
) -> None:
    stage.update(led_by(BROKER, 0, isr=[BROKER, OTHER]))
    client = stage.connect()
    client.call(produce_to(("t", 0, a_batch()), timeout_ms=2 * LAG_MS))
    leader = stage.partition("t").leader
    assert client.receive() is None

    stage.update(a_topic("t", a_partition([BROKER], partition_epoch=5)))
    stage.turn()

    assert stage.partition("t").leader is leader, "the role is the same"
    assert leader is not None
    assert leader.followers == {}
    assert codes_of(produced_in(client.receive())) == [0]


def test_a_smaller_isr_commits_what_waits_for_it(stage: HandlerStage) -> None:
    stage.update(led_by(BROKER, 0, isr=[BROKER, OTHER]))
    client = stage.connect()
    client.call(produce_to(("t", 0, a_batch()), timeout_ms=2 * LAG_MS))
    stage.pass_time(LAG_MS + 1)
    stage.look_round()
    ((partition, proposal),) = stage.proposals
    assert client.receive() is None

    written = a_partition(ALL, isr=[BROKER], partition_epoch=1)
    stage.isr_proposals.on_answered(partition, proposal, written)
    stage.turn()

    assert codes_of(produced_in(client.receive())) == [0]


def test_leader_adopts_the_replicas_of_an_answer_to_its_proposal(stage: HandlerStage) -> None:
    stage.update(led_by(BROKER, 0, isr=[BROKER, OTHER]))
    stage.connect().call(produce_to(("t", 0, a_batch()), acks=1))
    stage.pass_time(LAG_MS + 1)
    stage.look_round()
    ((partition, proposal),) = stage.proposals
    written = a_partition([BROKER, THIRD], isr=[BROKER], partition_epoch=6)

    stage.isr_proposals.on_answered(partition, proposal, written)
    stage.update(a_topic("t", written))

    leader = stage.partition("t").leader
    assert leader is not None
    assert list(leader.followers) == [THIRD], "the update brings no newer partition epoch"


def test_a_disk_that_fails_costs_its_partition_only(
    stage: HandlerStage, link: RecordingLink
) -> None:
    (stage.directory.path / "t-0").write_bytes(b"in the way")

    answer = stage.update(led_by(OTHER, 0), a_topic("u", a_partition(ALL)))

    assert answer is ErrorCode.none
    assert stage.partition("u").leader is not None
    assert link.take() == [
        ("follow", "t", OTHER, "replication-2-100"),
        ("role", "t"),
        ("role", "u"),
    ]
    with pytest.raises(StorageFailed, match="t-0"):
        stage.partition("t").log.append_as_follower(memoryview(a_batch()), WallMs(0))


def test_files_that_cannot_be_removed_do_not_keep_a_replica(stage: HandlerStage) -> None:
    stage.update(led_by(BROKER, 0))
    shutil.rmtree(stage.partition("t").log.directory)

    assert stage.update(deleted=("t",)) is ErrorCode.none
    assert len(stage.table) == 0
