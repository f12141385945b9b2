"""The leader's side of follower fetches over real logs, where a disk may fail."""

from pathlib import Path

import pytest

from cluster.brokers.replication.follower_sessions import Way
from cluster.brokers.replication.leader_fetches import LeaderFetches
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, LeaderEpoch, Offset
from cluster.protocol.peer.replication import FetchAnswer, FetchPosition, FollowerFetch
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.kafka_wire import produce_to


class KeptAnswers:
    """Keeps what followers are answered."""

    def __init__(self) -> None:
        self.answers: list[FetchAnswer] = []

    def send(self, _identity: bytes, answer: FetchAnswer) -> bool:
        self.answers.append(answer)
        return True

    def send_compact(self, _way: Way, _frames: list[bytes | memoryview]) -> bool:
        return False


BOTH = a_partition([BROKER, OTHER])


def test_a_partition_that_cannot_be_read_leaves_the_others_alone(tmp_path: Path) -> None:
    topic = a_topic("t", BOTH, BOTH, configs={"segment.bytes": "300"})
    with HandlerStage(tmp_path) as before:
        before.update(topic)
        client = before.connect()
        for partition in (0, 1):
            for _ in range(10):
                client.call(produce_to(("t", partition, a_batch()), acks=1))
        closed = before.partition("t").log.segments[0].file.path
        before.table.close()

    with HandlerStage(tmp_path) as stage:
        stage.update(topic)
        closed.unlink()
        sender = KeptAnswers()
        leader_side = LeaderFetches(stage.leader_actions, "here", 1000, sender)
        positions = [
            FetchPosition("t", number, LeaderEpoch(0), Offset(0), LeaderEpoch(-1), Offset(0))
            for number in (0, 1)
        ]
        leader_side.on_fetch(
            b"other",
            FollowerFetch(BrokerId(OTHER), "here", 7, 0, positions, [], 500, 5000, False),
            stage.loop.now_ms,
        )

        (answer,) = sender.answers
        assert [p.error for p in answer.partitions] == [
            ErrorCode.kafka_storage_error,
            ErrorCode.none,
        ]
        assert answer.partitions[1].records


class CompactAnswers(KeptAnswers):
    """Takes compact answers, and counts the bytes of their records."""

    def __init__(self) -> None:
        super().__init__()
        self.compact: list[int] = []

    def send_compact(self, _way: Way, frames: list[bytes | memoryview]) -> bool:
        self.compact.append(sum(map(len, frames[1:])))
        return True


@pytest.mark.parametrize(("isr", "batches"), [([BROKER], 3), ([BROKER, OTHER], 6)])
def test_replicas_that_catch_up_get_no_more_than_a_follower_appends_quickly(
    tmp_path: Path, isr: list[int], batches: int
) -> None:
    topic = a_topic("t", a_partition([BROKER, OTHER], isr), a_partition([BROKER, OTHER], isr))
    with HandlerStage(tmp_path) as stage:
        stage.update(topic)
        client = stage.connect()
        batch = a_batch(b"v" * 100_000)
        for partition in (0, 1):
            for _ in range(3):
                client.call(produce_to(("t", partition, batch), acks=1))
        sender = CompactAnswers()
        leader_side = LeaderFetches(stage.leader_actions, "here", 10_000_000, sender)
        positions = [
            FetchPosition("t", number, LeaderEpoch(0), Offset(0), LeaderEpoch(-1), Offset(0))
            for number in (0, 1)
        ]
        leader_side.on_fetch(
            b"other",
            FollowerFetch(BrokerId(OTHER), "here", 7, 0, positions, [], 500, 50_000_000, False),
            stage.loop.now_ms,
        )
        assert sender.compact == [batches * len(batch)]
