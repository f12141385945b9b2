"""A leader and followers under replication throttles, on a simulated clock."""

import heapq
import itertools
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.replication.follower_fetcher import FetchOptions, FollowerFetcher
from cluster.brokers.replication.follower_sessions import FollowerSession, Way
from cluster.brokers.replication.following import ThrottledFetches
from cluster.brokers.replication.leader_fetches import LeaderActions, LeaderFetches
from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.replica_throttle import ReplicaThrottle
from cluster.brokers.replication.segment_files import SegmentFiles
from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.cluster import PartitionState
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition
from cluster.protocol.peer.replication import FetchAnswer, FollowerFetch
from cluster.quotas.replication_quota import ReplicationQuota
from cluster.quotas.sampled_rate import WindowOptions
from cluster.records.builder import NewRecord, build_batch
from tests.support.examples import examples

LEADER = BrokerId(1)
OPTIONS = LogOptions(segment_bytes=1 << 20, preallocate_step_bytes=4096)
BATCH = build_batch([NewRecord(b"x" * 930)])
RATE = 100_000
BOTH = pytest.mark.parametrize("by_file", [True, False])


class Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Scene:
    """A leader, its followers, and the messages between them, delivered in the same millisecond."""

    def __init__(
        self, directory: Path, followers: int = 1, *, partitions: int = 1, by_file: bool = True
    ) -> None:
        self.now_ms = MonotonicMs(0)
        self.timers: list[tuple[int, int, Timer]] = []
        self.numbers = itertools.count()
        self.directory = directory
        self.by_file = by_file
        self.files = SegmentFiles()
        self.followers = [BrokerId(2 + number) for number in range(followers)]
        self.proposals: list[IsrProposal] = []
        self.leading = {each.id: each for each in self.replicas(LEADER, partitions)}
        self.throttle: ReplicaThrottle[FollowerSession] = self.a_throttle()
        self.to_leader: deque[tuple[BrokerId, FollowerFetch | bytes]] = deque()
        self.to_follower: deque[tuple[BrokerId, FetchAnswer | list[bytes]]] = deque()
        self.start_leader()
        self.throttles: dict[BrokerId, ReplicaThrottle[ThrottledFetches]] = {}
        self.fetchers: dict[BrokerId, FollowerFetcher] = {}
        self.following: dict[BrokerId, list[Partition]] = {}
        for broker in self.followers:
            self.throttles[broker] = self.a_throttle()
            self.fetchers[broker] = self.a_fetcher(broker)
            self.following[broker] = list(self.replicas(broker, partitions))

    def start_leader(self) -> None:
        """Serve followers, of which nothing is known yet."""

        def fail(_partition: TopicPartition, failure: StorageFailed) -> None:
            raise failure

        self.leader_side = LeaderFetches(
            LeaderActions(
                self.leading.get,
                lambda partition: self.leader_side.on_high_watermark_moved(partition.id),
                lambda _: None,
                lambda _, proposal: self.proposals.append(proposal),
                fail,
            ),
            "here",
            1 << 20,
            Answers(self),
            throttle=self.throttle,
        )

    def a_throttle(self) -> ReplicaThrottle:
        quota = ReplicationQuota(WindowOptions(), self.now_ms)
        return ReplicaThrottle(quota, lambda: self.now_ms, self.call_at)

    def a_fetcher(self, broker: BrokerId) -> FollowerFetcher:
        throttle = self.throttles[broker]
        fetcher = FollowerFetcher(
            LEADER,
            FetchOptions(broker, "here", 500, 10 << 20, 100, self.by_file),
            Requests(self, broker),
            self.files,
            Random(1),
            lambda _: None,
            throttle=throttle,
        )
        throttle.connect(
            lambda _: fetcher.on_turn(self.now_ms),
            lambda: fetcher.on_throttle_changed(self.now_ms),
        )
        return fetcher

    def replicas(self, owner: BrokerId, count: int) -> Iterator[Partition]:
        for number in range(count):
            partition_id = TopicPartition("orders", number)
            log = PartitionLog.open(
                self.directory / str(owner) / str(partition_id),
                partition_id,
                OPTIONS,
                WallMs(0),
                clean_shutdown=True,
                recovery_point=Offset(0),
                log_start_offset=Offset(0),
            )
            partition = Partition(partition_id, uuid.UUID(int=number + 1), log, Offset(0), owner, 1)
            partition.become(self.state([LEADER]), self.now_ms)
            yield partition

    def state(self, isr: Collection[BrokerId], epoch: int = 0) -> PartitionState:
        return PartitionState(
            (LEADER, *self.followers),
            tuple(isr),
            LEADER,
            LeaderEpoch(epoch),
            PartitionEpoch(epoch),
        )

    def call_at(self, at_ms: int, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        heapq.heappush(self.timers, (at_ms, next(self.numbers), timer))
        return timer

    # what happens

    def append(self, number: int, count: int = 1) -> None:
        partition = self.leading[TopicPartition("orders", number)]
        for _ in range(count):
            partition.append(memoryview(BATCH), -1, WallMs(0), self.now_ms)
        self.leader_side.on_news([partition.id])

    def follow(self) -> None:
        for broker, partitions in self.following.items():
            for partition in partitions:
                self.fetchers[broker].follow(partition)
            self.fetchers[broker].ask(self.now_ms)

    def throttle_leader(self, rate: int | None, partitions: Collection[int] | None = None) -> None:
        self.throttle.set_replicas("orders", partitions)
        self.throttle.set_limit(rate)
        self.throttle.apply()

    def throttle_followers(
        self, rate: int | None, partitions: Collection[int] | None = None
    ) -> None:
        for throttle in self.throttles.values():
            throttle.set_replicas("orders", partitions)
            throttle.set_limit(rate)
            throttle.apply()

    def lose_messages(self, broker: BrokerId) -> None:
        """The local connection breaks: the follower begins a new session."""
        self.to_leader = deque(each for each in self.to_leader if each[0] != broker)
        self.to_follower = deque(each for each in self.to_follower if each[0] != broker)
        self.fetchers[broker].on_way_lost(self.now_ms)

    def begin_epoch(self) -> None:
        """The leader leads on in a new epoch."""
        epoch = 1 + next(iter(self.leading.values())).leader_epoch
        for partition in self.leading.values():
            partition.become(self.state([LEADER], epoch), self.now_ms)
            self.leader_side.on_role_changed(partition.id)
        for broker, partitions in self.following.items():
            for partition in partitions:
                partition.become(self.state([LEADER], epoch), self.now_ms)
                self.fetchers[broker].follow(partition)
            self.fetchers[broker].ask(self.now_ms)

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms):
            self.deliver()
            self.now_ms = MonotonicMs(self.now_ms + 1)
            if self.now_ms % 100 == 0:
                self.leader_side.on_tick(self.now_ms)
                for fetcher in self.fetchers.values():
                    fetcher.on_tick(self.now_ms)
            while self.timers and self.timers[0][0] <= self.now_ms:
                call = heapq.heappop(self.timers)[2].call
                if call is not None:
                    call()
        self.deliver()

    def deliver(self) -> None:
        while self.to_leader or self.to_follower:
            if self.to_leader:
                broker, request = self.to_leader.popleft()
                identity = str(broker).encode()
                if isinstance(request, bytes):
                    self.leader_side.on_compact_fetch(identity, request, self.now_ms)
                else:
                    self.leader_side.on_fetch(identity, request, self.now_ms)
            if self.to_follower:
                broker, answer = self.to_follower.popleft()
                fetcher, wall_ms = self.fetchers[broker], WallMs(self.now_ms)
                if isinstance(answer, list):
                    fetcher.on_compact_answer(answer[0], answer[1:], self.now_ms, wall_ms)
                else:
                    fetcher.on_answer(answer, self.now_ms, wall_ms)

    # what is so

    def end(self, broker: BrokerId, number: int) -> int:
        return self.following[broker][number].log.log_end_offset

    def leader_end(self, number: int) -> int:
        return self.leading[TopicPartition("orders", number)].log.log_end_offset

    def received(self) -> list[int]:
        return [fetcher.received_bytes for fetcher in self.fetchers.values()]

    def is_complete(self) -> bool:
        return all(
            self.end(broker, partition.id.partition) == self.leader_end(partition.id.partition)
            for broker, partitions in self.following.items()
            for partition in partitions
        )

    def close(self) -> None:
        self.files.close()
        for partition in itertools.chain(self.leading.values(), *self.following.values()):
            partition.log.close(flush=False)


class Answers:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def send(self, identity: bytes, answer: FetchAnswer) -> bool:
        self.scene.to_follower.append((BrokerId(int(identity)), answer))
        return True

    def send_compact(self, way: Way, frames: list[bytes | memoryview]) -> bool:
        assert isinstance(way, bytes)
        answer = [bytes(frame) for frame in frames]
        self.scene.to_follower.append((BrokerId(int(way)), answer))
        return True


class Requests:
    def __init__(self, scene: Scene, broker: BrokerId) -> None:
        self.scene = scene
        self.broker = broker

    def send(self, fetch: FollowerFetch) -> bool:
        self.scene.to_leader.append((self.broker, fetch))
        return True

    def send_compact(self, message: bytes) -> bool:
        self.scene.to_leader.append((self.broker, message))
        return True


@BOTH
def test_followers_of_a_throttled_leader_share_its_rate(tmp_path: Path, by_file: bool) -> None:
    scene = Scene(tmp_path, followers=2, partitions=3, by_file=by_file)
    scene.throttle_leader(RATE)
    for number in range(3):
        scene.append(number, 150)
    scene.follow()
    scene.run(4_000)
    received = scene.received()
    assert 0.98 * 4 * RATE <= sum(received) <= 1.03 * 4 * RATE
    assert min(received) >= 0.9 * max(received)
    assert min(scene.end(broker, number) for broker in scene.followers for number in range(3)) > 50
    assert 0.95 * RATE < scene.throttle.quota.rate(scene.now_ms) < 1.05 * RATE
    scene.close()


@BOTH
def test_each_throttled_follower_has_its_own_rate(tmp_path: Path, by_file: bool) -> None:
    scene = Scene(tmp_path, followers=2, partitions=3, by_file=by_file)
    scene.throttle_followers(RATE)
    for number in range(3):
        scene.append(number, 200)
    scene.follow()
    scene.run(4_000)
    for received in scene.received():
        assert 0.98 * 4 * RATE <= received <= 1.03 * 4 * RATE
    assert min(scene.end(broker, number) for broker in scene.followers for number in range(3)) > 100
    scene.close()


def test_the_lower_rate_counts_where_both_sides_are_throttled(tmp_path: Path) -> None:
    scene = Scene(tmp_path, followers=2, partitions=2)
    scene.throttle_followers(RATE)
    scene.throttle_leader(RATE)
    for number in range(2):
        scene.append(number, 300)
    scene.follow()
    scene.run(4_000)
    assert 0.98 * 4 * RATE <= sum(scene.received()) <= 1.03 * 4 * RATE
    scene.close()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_other_partitions_never_wait(tmp_path: Path, side: str) -> None:
    scene = Scene(tmp_path, partitions=3)
    (broker,) = scene.followers
    throttle = scene.throttle_leader if side == "leader" else scene.throttle_followers
    throttle(RATE, {0, 1})
    scene.append(0, 300)
    scene.append(1, 300)
    scene.append(2, 400)
    scene.follow()
    scene.deliver()
    assert scene.end(broker, 2) == 400
    for count in range(1, 200):
        scene.run(3)
        scene.append(2)
        scene.deliver()
        assert scene.end(broker, 2) == 400 + count
    assert not scene.is_complete()
    scene.close()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_catches_up_joins_the_isr_and_does_not_wait_any_more(
    tmp_path: Path, side: str
) -> None:
    scene = Scene(tmp_path)
    (broker,) = scene.followers
    throttle = scene.throttle_leader if side == "leader" else scene.throttle_followers
    throttle(RATE)
    scene.append(0, 200)
    scene.follow()
    scene.run(1_000)
    assert not scene.proposals
    scene.run(1_200)
    assert scene.proposals[-1].isr == (LEADER, broker)
    assert scene.leading[TopicPartition("orders", 0)].high_watermark == 200
    # Even before the controller answers, commits wait for it.
    for count in range(1, 300):
        scene.append(0)
        scene.deliver()
        assert scene.end(broker, 0) == 200 + count
    scene.close()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_change_acts_at_once(tmp_path: Path, side: str) -> None:
    scene = Scene(tmp_path, partitions=2)
    throttle = scene.throttle_leader if side == "leader" else scene.throttle_followers
    throttle(0)
    for number in range(2):
        scene.append(number, 400)
    scene.follow()
    scene.run(2_000)
    assert scene.received() == [0]
    throttle(RATE)
    scene.run(1_000)
    assert 0.9 * RATE < sum(scene.received()) < 1.1 * RATE
    throttle(RATE, {0})
    scene.deliver()
    assert scene.end(scene.followers[0], 1) == 400
    throttle(None)
    scene.deliver()
    assert scene.is_complete()
    scene.close()


def test_a_held_follower_still_learns_where_the_log_starts(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.throttle_leader(0)
    scene.append(0, 10)
    scene.follow()
    scene.run(200)
    (leading,) = scene.leading.values()
    leading.delete_records(4)
    scene.leader_side.on_log_start_moved(leading.id)
    scene.run(700)
    assert scene.received() == [0]
    assert leading.low_watermark({scene.followers[0]}) == 4
    scene.throttle_leader(None)
    scene.run(200)
    assert scene.is_complete()
    scene.close()


def test_an_in_sync_follower_is_served_in_a_new_session_whatever_its_quota(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (broker,) = scene.followers
    scene.append(0, 10)
    scene.follow()
    scene.deliver()
    assert scene.proposals[-1].isr == (LEADER, broker)
    scene.throttle_followers(0)
    for count in range(1, 4):
        scene.lose_messages(broker)
        scene.append(0)
        scene.deliver()
        assert scene.end(broker, 0) == 10 + count
    scene.close()


def test_bytes_are_free_again_when_their_partition_is_not_followed_any_more(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, partitions=3)
    (broker,) = scene.followers
    scene.throttle_leader(0, {0, 1})
    scene.throttle_followers(RATE)
    for number in range(3):
        scene.append(number, 50)
    scene.follow()
    scene.run(200)  # the leader holds back what the follower has reserved bytes for
    for partition in scene.following[broker][:2]:
        scene.fetchers[broker].unfollow(partition.id)
    scene.run(1_000)
    assert scene.end(broker, 2) == 50
    scene.close()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "run", "lose", "epoch", "leader", "follower", "restart", "unfollow"]
        ),
        st.integers(0, 2),
        st.sampled_from([0, 30_000, 1_000_000, None]),
    ),
    max_size=25,
)


@examples(60)
@given(EVENTS, st.booleans())
def test_all_is_replicated_and_nothing_stays_reserved_after_any_events(events, by_file) -> None:
    with TemporaryDirectory() as directory:
        scene = Scene(Path(directory), followers=2, partitions=3, by_file=by_file)
        scene.follow()
        for event, number, rate in events:
            broker = scene.followers[number % 2]
            if event == "append":
                scene.append(number, 20)
            elif event == "run":
                scene.run(1 + 40 * number)
            elif event == "lose":
                scene.lose_messages(broker)
            elif event == "epoch":
                scene.begin_epoch()
            elif event == "leader":
                scene.throttle_leader(rate, {0, number})
            elif event == "follower":
                scene.throttle_followers(rate, None if number else ())
            elif event == "restart":
                scene.start_leader()
            elif event == "unfollow":
                partition = scene.following[broker][number]
                scene.fetchers[broker].unfollow(partition.id)
                scene.deliver()
                scene.fetchers[broker].follow(partition)
        scene.throttle_leader(1_000_000)
        scene.throttle_followers(1_000_000)
        for broker in scene.followers:
            scene.fetchers[broker].ask(scene.now_ms)
        scene.run(3_500)
        assert scene.is_complete()
        quotas = [scene.throttle.quota, *(each.quota for each in scene.throttles.values())]
        for quota in quotas:
            scene.run(200)
            grant = quota.take(scene.now_ms)
            assert grant is not None
            assert grant.most_bytes == 100_000  # nothing is reserved
        scene.close()
