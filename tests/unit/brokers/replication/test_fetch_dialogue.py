"""One leader and one follower talking, message by message, in whatever order they arrive."""

import uuid
from collections import deque
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.brokers.replication.follower_fetcher import FetchOptions, FollowerFetcher
from cluster.brokers.replication.follower_sessions import Way
from cluster.brokers.replication.leader_fetches import LeaderActions, LeaderFetches
from cluster.brokers.replication.partition import HIGH_WATERMARK, Partition
from cluster.brokers.replication.segment_files import SegmentFiles
from cluster.log.directory_room import DirectoryRoom
from cluster.log.mmap_segment import MmapSegment
from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.cluster import PartitionState
from cluster.model.errors import StorageFailed
from cluster.model.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from cluster.protocol.peer.compact import FETCH_ENTRY, FETCH_HEAD
from cluster.protocol.peer.replication import FetchAnswer, FollowerFetch
from cluster.records.builder import NewRecord, build_batch
from tests.support.examples import examples
from tests.support.small_disk import MIB, MeasuredDisk

LEADER, FOLLOWER = BrokerId(1), BrokerId(2)
MAX_WAIT_MS = 500
RETRY_MS = 100
OPTIONS = LogOptions(segment_bytes=4000, preallocate_step_bytes=4096)


def a_partition(directory: Path, number: int, owner: BrokerId, now_ms: int = 0) -> Partition:
    partition_id = TopicPartition("orders", number)
    log = PartitionLog.open(
        directory / str(owner) / str(partition_id),
        partition_id,
        OPTIONS,
        WallMs(now_ms),
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )
    partition = Partition(partition_id, uuid.UUID(int=number + 1), log, Offset(0), owner, 1)
    partition.become(state_in(LeaderEpoch(0)), MonotonicMs(now_ms))
    return partition


def state_in(epoch: LeaderEpoch) -> PartitionState:
    both = (LEADER, FOLLOWER)
    return PartitionState(both, both, LEADER, epoch, PartitionEpoch(int(epoch)))


class Dialogue:
    """A leader, a follower and the messages between them, which the test delivers.

    Messages of a local connection and those of ZeroMQ (`to_leader`, `to_follower`) are each in
    order, but either may be delivered first.
    """

    def __init__(
        self,
        directory: Path,
        *,
        by_file: bool,
        is_local: bool = False,
        has_readers: bool = False,
    ) -> None:
        """`is_local`: there is a local connection at once."""
        self.directory = directory
        self.has_readers = has_readers
        self.now_ms = MonotonicMs(0)
        self.is_leader_cut_off = False
        self.leading: dict[TopicPartition, Partition] = {}
        self.following: dict[TopicPartition, Partition] = {}
        self.to_leader: deque[FollowerFetch | bytes] = deque()
        self.to_follower: deque[FetchAnswer | list[bytes]] = deque()
        self.files = SegmentFiles()
        self.line: LocalLine | None = None
        """The local connection that the follower uses."""
        self.lines: list[LocalLine] = []
        """Local connections at whose leader's end something can still be read, the oldest first."""
        self.restart_leader()
        self.by_file = by_file
        self.restart_follower()
        if is_local:
            self.connect()

    # what happens

    def restart_leader(self) -> None:
        """It knows nothing of who fetches from it."""

        def fail(_partition: TopicPartition, failure: StorageFailed) -> None:
            raise failure

        actions = LeaderActions(
            find_partition=self.leading.get,
            on_high_watermark_moved=self._on_high_watermark_moved,
            on_follower_log_start_moved=lambda _: None,
            propose_isr=lambda _partition, _proposal: None,
            note_failure=fail,
        )
        self.leader_side = LeaderFetches(actions, "here", 1000, AnswersTo(self))
        self.leader_side.has_readers = self.has_readers

    def restart_follower(self) -> None:
        """It begins with nothing but its files."""
        self.following.clear()
        self.fetcher = FollowerFetcher(
            LEADER,
            FetchOptions(FOLLOWER, "here", MAX_WAIT_MS, 3000, RETRY_MS, self.by_file),
            RequestsTo(self),
            self.files,
            Random(1),
            lambda _: None,
        )

    def lead(self, number: int) -> None:
        partition = a_partition(self.directory, number, LEADER, self.now_ms)
        self.leading[partition.id] = partition
        self.leader_side.on_role_changed(partition.id)

    def follow(self, number: int) -> None:
        partition = a_partition(self.directory, number, FOLLOWER, self.now_ms)
        leading = self.leading.get(partition.id)
        if leading is not None:
            partition.become(state_in(leading.leader_epoch), self.now_ms)
        self.following[partition.id] = partition
        self.fetcher.follow(partition)
        self.fetcher.ask(self.now_ms)

    def append(self, number: int, value: bytes = b"value") -> None:
        partition = self.leading[TopicPartition("orders", number)]
        partition.append(memoryview(build_batch([NewRecord(value)])), -1, WallMs(0), self.now_ms)
        self.leader_side.on_news([partition.id])

    def roll(self, number: int) -> None:
        """The leader begins another segment file."""
        self.leading[TopicPartition("orders", number)].log.roll(WallMs(0))

    def delete_records(self, number: int) -> None:
        """A client has all committed records deleted, and waits for the followers."""
        partition = self.leading[TopicPartition("orders", number)]
        partition.delete_records(HIGH_WATERMARK)
        self.leader_side.on_log_start_moved(partition.id)
        self.leader_side.on_news([partition.id])

    def leader_begins_epoch(self, number: int) -> None:
        """The controller tells the leader that it leads on in a new epoch."""
        partition = self.leading[TopicPartition("orders", number)]
        partition.become(state_in(LeaderEpoch(partition.leader_epoch + 1)), self.now_ms)
        self.leader_side.on_role_changed(partition.id)

    def follower_begins_epoch(self, number: int) -> None:
        """The controller tells the follower."""
        partition = self.following[TopicPartition("orders", number)]
        partition.become(state_in(LeaderEpoch(partition.leader_epoch + 1)), self.now_ms)
        self.fetcher.follow(partition)
        self.fetcher.ask(self.now_ms)

    def leader_receives(self) -> None:
        """Take the next message of ZeroMQ; before a full one, all that was sent locally before."""
        if self.to_leader:
            if isinstance(self.to_leader[0], FollowerFetch):
                while self.leader_receives_locally():
                    pass
            self.leader_takes(b"follower", self.to_leader.popleft())

    def follower_receives(self) -> None:
        if self.to_follower:
            self.follower_takes(self.to_follower.popleft())
            assert not self.fetcher.delayed  # nothing that comes is refused

    def leader_receives_locally(self) -> bool:
        """Take the next local message, or notice the end; returns whether there was one."""
        return any(line.receive() for line in list(self.lines))

    def follower_receives_locally(self) -> bool:
        """Take the next local message, or notice the end; returns whether there was one."""
        line = self.line
        if line is None:
            return False
        if line.to_follower:
            self.follower_takes([line.to_follower.popleft()])
            assert not self.fetcher.delayed
            return True
        if not line.is_leader_there:
            self.line = None
            self.fetcher.on_way_lost(self.now_ms)
            return True
        return False

    def connect(self) -> None:
        """Connect locally, unless that is done."""
        if self.line is None:
            self.line = LocalLine(self)
            self.lines.append(self.line)

    def follower_hangs_up(self) -> None:
        """The leader can still read what was sent; what it sent is lost."""
        if self.line is not None:
            self.line.is_follower_there = False
            self.line = None
            self.fetcher.on_way_lost(self.now_ms)

    def leader_hangs_up(self) -> None:
        """What it has sent can still be read, and it has read everything."""
        while self.leader_receives_locally():
            pass
        self.leader_dislikes_a_message()

    def leader_dislikes_a_message(self) -> None:
        """It hangs up: what it has sent can still be read, what it has not read is lost."""
        if self.line is not None and self.line.is_leader_there:
            self.line.close()
            self.leader_side.on_way_lost(self.line)

    def leader_forgets(self) -> None:
        """It is another process with the same partitions; what was under way to it is lost."""
        self.to_leader.clear()
        for line in list(self.lines):
            line.close()
        self.restart_leader()

    def leader_takes(self, identity: bytes, message: FollowerFetch | bytes) -> None:
        if isinstance(message, bytes):
            self.leader_side.on_compact_fetch(identity, message, self.now_ms)
        else:
            self.leader_side.on_fetch(identity, message, self.now_ms)

    def follower_takes(self, message: FetchAnswer | list[bytes]) -> None:
        wall_ms = WallMs(self.now_ms)
        if isinstance(message, list):
            self.fetcher.on_compact_answer(message[0], message[1:], self.now_ms, wall_ms)
        else:
            self.fetcher.on_answer(message, self.now_ms, wall_ms)

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms = MonotonicMs(self.now_ms + duration_ms)
        self.leader_side.on_tick(self.now_ms)
        self.fetcher.on_tick(self.now_ms)

    def run_until_quiet(self) -> None:
        is_quiet = False
        while not is_quiet:
            is_quiet = not (self.to_leader or self.to_follower)
            self.leader_receives()
            self.follower_receives()
            is_local = [self.leader_receives_locally(), self.follower_receives_locally()]
            is_quiet = is_quiet and not any(is_local)

    def close(self) -> None:
        self.files.close()
        for partition in [*self.leading.values(), *self.following.values()]:
            partition.log.close(flush=False)

    def _on_high_watermark_moved(self, partition: Partition) -> None:
        self.leader_side.on_high_watermark_moved(partition.id)


class LocalLine:
    """A local connection, as the leader has it. Each end may hang up."""

    def __init__(self, talk: Dialogue) -> None:
        self._talk = talk
        self.to_leader: deque[bytes] = deque()
        self.to_follower: deque[bytes] = deque()
        self.is_leader_there = True
        self.is_follower_there = True

    def send(self, message: bytes) -> bool:
        if self.is_leader_there and self.is_follower_there:
            self.to_follower.append(message)
            return True
        return False

    def receive(self) -> bool:
        """Hand the next message to the leader, or tell it of the end."""
        leader_side = self._talk.leader_side
        if self.to_leader:
            leader_side.on_compact_fetch(self, self.to_leader.popleft(), self._talk.now_ms)
            return True
        if not self.is_follower_there:
            self.close()
            leader_side.on_way_lost(self)
            return True
        return False

    def close(self) -> None:
        """The leader hangs up."""
        self.is_leader_there = False
        self.to_leader.clear()
        self._talk.lines.remove(self)


class AnswersTo:
    """Sends what a leader answers, unless the leader is cut off."""

    def __init__(self, talk: Dialogue) -> None:
        self._talk = talk

    def send(self, _identity: bytes, answer: FetchAnswer) -> bool:
        if self._talk.is_leader_cut_off:
            return False
        self._talk.to_follower.append(answer)
        return True

    def send_compact(self, way: Way, frames: list[bytes | memoryview]) -> bool:
        if self._talk.is_leader_cut_off:
            return False
        if not isinstance(way, bytes):
            return way.send(bytes(frames[0]))
        self._talk.to_follower.append([bytes(frame) for frame in frames])
        return True


class RequestsTo:
    """Sends what a follower asks."""

    def __init__(self, talk: Dialogue) -> None:
        self._talk = talk

    def send(self, fetch: FollowerFetch) -> bool:
        self._talk.to_leader.append(fetch)
        return True

    def send_compact(self, message: bytes) -> bool:
        line = self._talk.line
        if line is not None and line.is_leader_there:
            line.to_leader.append(message)
        else:
            self._talk.to_leader.append(message)
        return True


def offsets_in(message: FollowerFetch | bytes) -> list[int]:
    """The fetch offsets that a request reports."""
    if isinstance(message, bytes):
        return [entry[2] for entry in FETCH_ENTRY.iter_unpack(message[FETCH_HEAD.size :])]
    return [position.fetch_offset for position in message.partitions]


def contents(partition: Partition) -> tuple[int, bytes]:
    """The log start, and the batches from there on."""
    log, found = partition.log, b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True)
        found += part.view()
        offset = part.next_offset
    return log.log_start_offset, found


def test_partition_that_is_followed_later_does_not_wait_for_the_parked_request(
    tmp_path: Path,
) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.follow(0)
    talk.run_until_quiet()

    talk.lead(1)
    talk.follow(1)
    talk.append(1)
    talk.run_until_quiet()

    assert talk.now_ms == 0
    (leading, following) = (
        side[TopicPartition("orders", 1)] for side in (talk.leading, talk.following)
    )
    assert following.log.log_end_offset == 1
    assert leading.high_watermark == 1
    talk.close()


def test_follower_that_hears_of_its_role_before_the_leader_waits_for_it(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.follow(0)
    talk.run_until_quiet()
    talk.lead(0)
    talk.append(0)
    talk.run_until_quiet()
    (following,) = talk.following.values()
    assert following.log.log_end_offset == 1

    talk.follower_begins_epoch(0)
    talk.run_until_quiet()
    talk.leader_begins_epoch(0)
    talk.append(0)
    talk.run_until_quiet()

    assert following.log.log_end_offset == 2
    assert talk.now_ms == 0
    talk.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("follow"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["roll", "delete_records"]), st.integers(0, 2)),
        st.tuples(st.just("begin_epoch"), st.integers(0, 2), st.booleans(), st.booleans()),
        st.tuples(
            st.sampled_from(
                [
                    "leader_receives",
                    "follower_receives",
                    "leader_receives_locally",
                    "follower_receives_locally",
                ]
            )
        ),
        st.tuples(st.sampled_from(["connect", "follower_hangs_up", "leader_hangs_up"])),
        st.tuples(st.just("pass_time"), st.sampled_from([10, RETRY_MS, MAX_WAIT_MS])),
    ),
    max_size=60,
)


ANSWER_CROSSES_REQUEST = [
    ("follow", 0),
    ("leader_receives",),
    ("append", 0),
    ("follow", 1),
    ("append", 0),
    ("leader_receives",),
]


def play(talk: Dialogue, steps: list[tuple[Any, ...]]) -> None:
    """Let all steps happen; the leader leads three partitions."""
    for number in range(3):
        talk.lead(number)
    for name, *arguments in steps:
        followed = arguments and TopicPartition("orders", arguments[0]) in talk.following
        if name == "begin_epoch":
            number, leader_first, leader_receives = arguments
            orders = [talk.leader_begins_epoch, talk.follower_begins_epoch]
            for order in orders if leader_first else reversed(orders):
                if order == talk.leader_begins_epoch or followed:
                    order(number)
                    if leader_receives:
                        talk.leader_receives()
        elif name != "follow" or not followed:
            getattr(talk, name)(*arguments)


# A request that begins an epoch goes by the new connection, while the one before is under way.
CONNECTED_BEHIND_A_REQUEST = [
    ("follow", 0),
    ("leader_receives",),
    ("append", 0),
    ("follower_receives",),
    ("connect",),
    ("begin_epoch", 0, False, False),
    ("leader_receives_locally",),
]
# A full answer names another segment file, and a compact one in the next epoch refers to it.
FILE_NAMED_BEHIND_THE_ANSWER = [
    ("connect",),
    ("follow", 0),
    ("append", 0),
    ("leader_receives",),
    ("follower_receives",),
    ("leader_receives_locally",),
    ("roll", 0),
    ("append", 0),
    ("begin_epoch", 0, True, False),
    ("leader_receives_locally",),
    ("follower_receives_locally",),
]


@examples(60)
@example(steps=CONNECTED_BEHIND_A_REQUEST, by_file=False, is_local=False, has_readers=True)
@example(steps=FILE_NAMED_BEHIND_THE_ANSWER, by_file=True, is_local=True, has_readers=True)
@example(steps=ANSWER_CROSSES_REQUEST, by_file=False, is_local=False, has_readers=True)
@given(steps=STEPS, by_file=st.booleans(), is_local=st.booleans(), has_readers=st.booleans())
def test_replicas_are_equal_at_the_end_whatever_the_order(
    steps: list[tuple[Any, ...]], by_file: bool, is_local: bool, has_readers: bool
) -> None:
    """With readers, the high watermarks are, too."""
    with TemporaryDirectory() as directory:
        talk = Dialogue(
            Path(directory), by_file=by_file, is_local=is_local, has_readers=has_readers
        )
        play(talk, steps)
        talk.run_until_quiet()
        # Without a pause: nothing was refused on the way, and nothing waits for a timeout.
        for partition_id, following in talk.following.items():
            leading = talk.leading[partition_id]
            assert contents(following) == contents(leading)
            assert leading.high_watermark == leading.log.log_end_offset
            if has_readers:
                assert following.high_watermark == leading.high_watermark
        # The followers hear of that without further records.
        for _ in range(2):
            talk.pass_time(MAX_WAIT_MS)
            talk.run_until_quiet()
        for partition_id, following in talk.following.items():
            leading = talk.leading[partition_id]
            assert following.high_watermark == leading.high_watermark
            live = (BrokerId(FOLLOWER),)
            assert leading.low_watermark(live) == leading.log.log_start_offset
        talk.close()


LOSSES = st.tuples(st.sampled_from(["leader_dislikes_a_message", "leader_forgets"]))


@examples(60)
@given(
    steps=st.lists(st.tuples(LOSSES, STEPS.map(lambda steps: steps[:15])), min_size=1, max_size=4),
    by_file=st.booleans(),
)
def test_replicas_are_equal_after_a_while_whatever_is_lost(
    steps: list[tuple[tuple[str], list[tuple[Any, ...]]]], by_file: bool
) -> None:
    with TemporaryDirectory() as directory:
        talk = Dialogue(Path(directory), by_file=by_file, is_local=True)
        happening = [step for loss, most in steps for step in (*most, loss)]
        play(talk, [("follow", 0), *happening])
        for _ in range(15):  # an answer is overdue, and high watermarks are told
            talk.run_until_quiet()
            talk.pass_time(MAX_WAIT_MS)
        talk.run_until_quiet()
        assert in_step(talk)
        for partition_id, following in talk.following.items():
            assert following.high_watermark == talk.leading[partition_id].high_watermark
        talk.close()


@pytest.mark.parametrize("has_news", [True, False])
def test_a_follower_deletes_what_the_leader_has_deleted(tmp_path: Path, has_news: bool) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.follow(0)
    talk.append(0)
    talk.append(0)
    talk.run_until_quiet()
    leading, following = (next(iter(side.values())) for side in (talk.leading, talk.following))
    live = (BrokerId(FOLLOWER),)
    assert leading.low_watermark(live) == 0

    leading.delete_records(HIGH_WATERMARK)
    talk.leader_side.on_log_start_moved(leading.id)
    if has_news:
        talk.append(0)
    else:
        talk.pass_time(MAX_WAIT_MS)  # as with a high watermark, which comes along then
    talk.run_until_quiet()

    assert following.log.log_start_offset == leading.low_watermark(live) == 2
    talk.close()


def test_a_follower_learns_no_high_watermark_while_its_log_diverges(tmp_path: Path) -> None:
    """Cut to the end of an epoch that the leader does not have, its log still differs before."""
    talk = Dialogue(tmp_path, by_file=False)
    leading = a_partition(talk.directory, 0, LEADER)
    following = a_partition(talk.directory, 0, FOLLOWER)
    for epoch, owner, broker, value in [
        (1, leading, LEADER, b"both"),
        (1, following, FOLLOWER, b"both"),
        (2, following, FOLLOWER, b"only the follower"),
        (3, leading, LEADER, b"only the leader"),
        (4, following, FOLLOWER, b"only the follower, too"),
    ]:
        both = (LEADER, FOLLOWER)
        led = PartitionState(both, both, broker, LeaderEpoch(epoch), PartitionEpoch(epoch))
        owner.become(led, talk.now_ms)
        owner.append(memoryview(build_batch([NewRecord(value)])), 1, WallMs(0), talk.now_ms)
    for partition in (leading, following):
        partition.become(state_in(LeaderEpoch(5)), talk.now_ms)
    seen: list[tuple[int, bytes]] = []
    talk.leading[leading.id], talk.following[following.id] = leading, following
    leading.leader.high_watermark = leading.log.log_end_offset  # type: ignore[union-attr]
    talk.fetcher.follow(following)
    talk.fetcher.ask(talk.now_ms)
    while talk.to_leader or talk.to_follower:
        talk.leader_receives()
        talk.follower_receives()
        committed = min(following.high_watermark, following.log.log_end_offset)
        if committed > 1:
            seen.append(contents(following))
    assert contents(following) == contents(leading)
    assert all(one == contents(leading) for one in seen)
    for _ in range(2):
        talk.pass_time(MAX_WAIT_MS)
        talk.run_until_quiet()
    assert following.high_watermark == leading.high_watermark == 2
    talk.close()


def test_an_empty_log_beyond_the_leaders_end_starts_over(tmp_path: Path) -> None:
    """Its checkpoint was nonsense, and no epoch tells where it diverges."""
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.append(0)
    following = a_partition(tmp_path, 0, FOLLOWER)
    following.start_over_at(Offset(10**15))
    talk.following[following.id] = following
    talk.fetcher.follow(following)
    talk.fetcher.ask(talk.now_ms)
    talk.run_until_quiet()
    assert in_step(talk)
    talk.close()


def test_restarted_follower_that_lacks_only_the_high_watermark_is_told(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.append(0)
    talk.follow(0)
    talk.run_until_quiet()
    (before,) = talk.following.values()
    before.log.close(flush=False)

    talk.restart_follower()
    talk.follow(0)
    (following,) = talk.following.values()
    assert (following.log.log_end_offset, following.high_watermark) == (1, 0)
    talk.run_until_quiet()
    talk.pass_time(10)
    talk.run_until_quiet()

    assert following.high_watermark == 1
    talk.close()


def in_step(talk: Dialogue) -> bool:
    """Everything the leader has is with the follower, and known to be."""
    return all(
        contents(following) == contents(talk.leading[partition_id])
        and talk.leading[partition_id].high_watermark
        == talk.leading[partition_id].log.log_end_offset
        for partition_id, following in talk.following.items()
    )


def test_lost_answer_is_noticed_when_the_next_request_comes_over_another_connection(
    tmp_path: Path,
) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    for number in (0, 1):
        talk.lead(number)
    talk.follow(0)
    talk.run_until_quiet()
    talk.append(0)
    talk.to_follower.clear()  # the connection broke with the records on their way
    talk.follow(1)
    talk.leader_takes(b"the next connection", talk.to_leader.popleft())
    talk.follower_receives()
    talk.pass_time(RETRY_MS)
    talk.run_until_quiet()
    assert in_step(talk)
    talk.close()


def test_answer_that_cannot_be_sent_ends_the_session(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.follow(0)
    talk.run_until_quiet()
    talk.is_leader_cut_off = True
    talk.append(0)
    talk.is_leader_cut_off = False
    talk.append(0)
    assert not talk.to_follower  # the session is over, so there is nothing to answer
    talk.pass_time(MAX_WAIT_MS + 2_001)
    talk.run_until_quiet()
    assert in_step(talk)
    talk.close()


def test_lost_request_is_asked_again(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=True)
    talk.lead(0)
    talk.follow(0)
    talk.to_leader.clear()
    talk.append(0)
    talk.pass_time(MAX_WAIT_MS + 1_999)
    assert not talk.to_leader
    talk.pass_time(2)
    talk.run_until_quiet()
    assert in_step(talk)
    talk.close()


def test_late_answer_to_a_session_that_was_given_up_is_nothing(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.append(0)
    talk.follow(0)
    talk.leader_receives()
    late = talk.to_follower.popleft()
    talk.pass_time(MAX_WAIT_MS + 2_001)
    talk.run_until_quiet()
    assert in_step(talk)
    before = contents(talk.following[TopicPartition("orders", 0)])
    talk.follower_takes(late)
    assert contents(talk.following[TopicPartition("orders", 0)]) == before
    talk.close()


def test_late_compact_answer_to_a_former_session_is_nothing(tmp_path: Path) -> None:
    """Its handles stand for other partitions now."""
    talk = Dialogue(tmp_path, by_file=False)
    for number in (0, 1):
        talk.lead(number)
        talk.append(number, b"first")
        talk.follow(number)
    talk.run_until_quiet()
    talk.append(0, b"only of partition 0")
    late = talk.to_follower.popleft()
    assert isinstance(late, list)

    first = talk.following[TopicPartition("orders", 0)]
    talk.fetcher.unfollow(first.id)
    talk.fetcher.follow(first)
    talk.fetcher.ask(talk.now_ms)
    for _ in range(10):  # until the number of the late answer was used in this session, too
        talk.run_until_quiet()
        talk.append(0)
    talk.run_until_quiet()
    talk.follower_takes(late)
    assert in_step(talk)
    talk.close()


def test_follower_that_has_caught_up_reports_its_position_when_asked(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.append(0)
    talk.follow(0)
    talk.run_until_quiet()
    partition = TopicPartition("orders", 0)
    talk.leader_side.ask_for_positions(partition, [BrokerId(9)])
    assert not talk.to_follower
    talk.leader_side.ask_for_positions(partition, [FOLLOWER])
    talk.leader_side.ask_for_positions(partition, [FOLLOWER])  # it is about to report
    assert len(talk.to_follower) == 1
    talk.follower_receives()
    (fetch,) = talk.to_leader
    assert offsets_in(fetch) == [1]
    talk.close()


def test_a_follower_without_room_fetches_nothing_until_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.follow(0)
    talk.run_until_quiet()
    disk = MeasuredDisk(monkeypatch, 1_000 * MIB)
    room = DirectoryRoom(tmp_path, 16 * MIB)
    log = talk.following[TopicPartition("orders", 0)].log
    log.update_options(replace(log.options, room=room))
    disk.leave(0)
    talk.append(0)
    (answer,) = talk.to_follower
    talk.to_follower.clear()
    talk.follower_takes(answer)
    assert room.is_used_up
    talk.to_leader.clear()
    for _ in range(20):
        talk.pass_time(RETRY_MS)
        assert not any(offsets_in(fetch) for fetch in talk.to_leader)
    assert "cannot replicate" not in caplog.text

    disk.leave(100 * MIB)
    room.look()
    talk.pass_time(MAX_WAIT_MS + 2_001)
    talk.run_until_quiet()
    assert in_step(talk)
    talk.close()


def test_fetch_of_a_session_that_the_leader_does_not_know_begins_another(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.follow(0)
    talk.run_until_quiet()
    talk.restart_leader()
    talk.append(0)
    talk.pass_time(MAX_WAIT_MS + 2_001)
    talk.run_until_quiet()
    talk.pass_time(RETRY_MS)
    talk.run_until_quiet()
    assert in_step(talk)
    talk.close()


def test_high_watermark_is_told_also_after_an_answer_that_was_an_error(tmp_path: Path) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    talk.follow(0)
    talk.append(0)
    talk.run_until_quiet()
    partition_id = TopicPartition("orders", 0)
    leading, following = talk.leading[partition_id], talk.following[partition_id]
    assert (leading.high_watermark, following.high_watermark) == (1, 0)
    # The leader loses its session before it has told, and has its role back at once.
    leading.resign()
    talk.leader_side.on_role_changed(partition_id)
    talk.follower_takes(talk.to_follower.popleft())
    assert talk.fetcher.delayed
    assert talk.fetcher.take_retry_at_ms() == talk.now_ms + RETRY_MS
    assert talk.fetcher.take_retry_at_ms() is None
    leading.become(state_in(LeaderEpoch(0)), talk.now_ms)
    talk.leader_side.on_role_changed(partition_id)
    for _ in range(3):
        talk.pass_time(MAX_WAIT_MS)
        talk.run_until_quiet()
    assert following.high_watermark == 1
    talk.close()


def test_damage_at_the_leader_is_an_error_of_the_follower_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Dialogue(tmp_path, by_file=False)
    talk.lead(0)
    for _ in range(2):
        talk.append(0)
    (leading,) = talk.leading.values()
    leading.log.roll(WallMs(0))
    path = leading.log.segments[0].file.path
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    talk.follow(0)
    for _ in range(3):
        while talk.to_leader:
            talk.leader_receives()
            while talk.to_follower:
                talk.follower_takes(talk.to_follower.popleft())
        talk.pass_time(RETRY_MS)
    errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert len(errors) == 2  # the leader's line, and the follower's
    assert f"{path} is damaged at byte" in errors[0]
    assert errors[1].startswith("orders-0: cannot replicate from offset 1 on, what leader 1 has")

    path.write_bytes(content)
    talk.pass_time(RETRY_MS)
    talk.run_until_quiet()
    (following,) = talk.following.values()
    assert following.log.log_end_offset == 2
    talk.close()


def flip_last_byte(file: MmapSegment) -> None:
    with file.path.open("r+b") as opened:
        opened.seek(file.size_bytes - 1)
        byte = opened.read(1)[0]
        opened.seek(file.size_bytes - 1)
        opened.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("by_file", [False, True])
def test_the_leader_looks_again_at_what_a_follower_could_not_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, by_file: bool
) -> None:
    talk = Dialogue(tmp_path, by_file=by_file)
    talk.lead(0)
    for _ in range(2):
        talk.append(0)
    (leading,) = talk.leading.values()
    active = leading.log.segments[-1].file
    flip_last_byte(active)
    talk.follow(0)
    for _ in range(3):
        while talk.to_leader:
            talk.leader_receives()
            while talk.to_follower:
                talk.follower_takes(talk.to_follower.popleft())
        talk.pass_time(RETRY_MS)
    (following,) = talk.following.values()
    assert following.log.log_end_offset == 1
    assert [damage.offset for damage in leading.log.damage] == [1]
    assert f"{active.path} is damaged at byte" in caplog.text

    flip_last_byte(active)
    talk.pass_time(RETRY_MS)
    talk.run_until_quiet()
    assert following.log.log_end_offset == 2
    talk.close()
