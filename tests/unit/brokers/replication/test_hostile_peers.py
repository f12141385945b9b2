"""False but well-formed messages of followers and leaders cause no failure and damage no log."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.replication.follower_fetcher import FetchOptions, FollowerFetcher
from cluster.brokers.replication.follower_sessions import Way
from cluster.brokers.replication.leader_fetches import LeaderFetches
from cluster.brokers.replication.segment_files import SegmentFiles
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import ErrorCode, PeerError
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.compact import (
    ANSWER_ENTRY,
    ANSWER_HEAD,
    COMPACT_ANSWER,
    COMPACT_FETCH,
    FETCH_ENTRY,
    FETCH_HEAD,
)
from cluster.protocol.peer.replication import (
    FetchAnswer,
    FetchedPartition,
    FetchPosition,
    FileSource,
    FollowerFetch,
)
from cluster.records.builder import NewRecord, build_batch
from tests.support.cluster_states import a_partition, a_topic
from tests.support.examples import examples
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import produce_to

STRANGER = 77
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
OFFSETS = st.sampled_from([0, 1, 2, 3, 4, 100, 2**31, INT64_MAX])
EPOCHS = st.sampled_from([-1, 0, 1, 2, INT32_MAX])
NUMBERS = st.sampled_from([0, 1, 5, INT32_MAX])
TOPICS = st.sampled_from(["t", "u", "", "..", "no such"])
PARTITIONS = st.sampled_from([0, 1, 2, INT32_MAX])


class Leader:
    """Leads t-0 with three records; what followers are answered is kept."""

    def __init__(self, directory: Path) -> None:
        self.stage = HandlerStage(directory)
        self.stage.update(a_topic("t", a_partition([BROKER, OTHER]), a_partition([OTHER, BROKER])))
        self.stage.connect().call(produce_to(("t", 0, a_batch(b"a", b"b", b"c")), acks=1))
        self.answers: list[FetchAnswer] = []
        self.compact_answers: list[list[bytes]] = []
        self.side = LeaderFetches(self.stage.leader_actions, "here", 1 << 20, self)
        self.now_ms = self.stage.loop.now_ms

    def send(self, _identity: bytes, answer: FetchAnswer) -> bool:
        self.answers.append(decode([bytes(frame) for frame in encode(answer)]))
        return True

    def send_compact(self, _way: Way, frames: list[bytes | memoryview]) -> bool:
        self.compact_answers.append([bytes(frame) for frame in frames])
        return True

    @property
    def given(self) -> list[list[tuple[int, int]]]:
        """Handle and number of bytes of each partition, of each compact answer."""
        return [
            [(entry[0], entry[5]) for entry in ANSWER_ENTRY.iter_unpack(head[ANSWER_HEAD.size :])]
            for head, *_ in self.compact_answers
        ]

    def fetch(self, broker: int, *positions: FetchPosition, **changes: Any) -> None:
        members: dict[str, Any] = {
            "broker": broker,
            "machine": "there",
            "session": 5,
            "sequence": 0,
            "partitions": positions,
            "forgotten": (),
            "max_wait_ms": 500,
            "max_bytes": 1 << 20,
            "by_file": False,
        }
        self.side.on_fetch(b"peer", FollowerFetch(**(members | changes)), self.now_ms)

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms = MonotonicMs(self.now_ms + duration_ms)
        self.side.on_tick(self.now_ms)

    def __enter__(self) -> "Leader":
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.__exit__()


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    with Leader(tmp_path / "data") as made:
        yield made


def at(offset: int, topic: str = "t", partition: int = 0, epoch: int = 0) -> FetchPosition:
    return FetchPosition(topic, partition, epoch, offset, -1, 0)


@pytest.mark.parametrize("broker", [STRANGER, BROKER, THIRD, INT32_MAX])
def test_a_broker_that_is_no_follower_is_given_nothing(leader: Leader, broker: int) -> None:
    leader.fetch(broker, at(3))
    leader.fetch(broker, at(0))

    assert [[p.error for p in answer.partitions] for answer in leader.answers] == [
        [ErrorCode.not_leader_or_follower]
    ] * 2
    assert all(p.records is None for answer in leader.answers for p in answer.partitions)
    assert leader.stage.partition("t").high_watermark == 0


@pytest.mark.parametrize("offset", [4, 2**31, INT64_MAX])
def test_an_offset_beyond_the_log_end_moves_nothing(leader: Leader, offset: int) -> None:
    leader.fetch(OTHER, at(offset))

    ((fetched,),) = (answer.partitions for answer in leader.answers)
    assert fetched.error is ErrorCode.offset_out_of_range
    assert leader.stage.partition("t").high_watermark == 0


def test_a_follower_that_would_wait_for_ever_is_answered_after_five_minutes(leader: Leader) -> None:
    leader.fetch(OTHER, max_wait_ms=INT32_MAX)
    leader.pass_time(299_999)
    assert leader.given == []
    leader.pass_time(1)

    assert leader.given == [[]]


def test_a_partition_named_twice_is_answered_once(leader: Leader) -> None:
    leader.fetch(OTHER, at(0), at(3), at(0))

    (((handle, size_bytes),),) = leader.given
    assert handle == 0
    assert size_bytes > 0


def test_thousands_of_forgotten_partitions_that_nobody_asked_for_are_nothing(
    leader: Leader,
) -> None:
    forgotten = [TopicPartition("t", number % 7_000) for number in range(20_000)]
    leader.fetch(OTHER, at(0), forgotten=forgotten, max_wait_ms=0)

    assert leader.given == [[]]
    assert leader.answers == []


def test_sessions_of_peers_that_ask_no_more_are_given_up(leader: Leader) -> None:
    """Otherwise sessions of invented broker ids would fill the table and keep real brokers out."""
    for broker in range(100, 100 + 5_000):
        leader.fetch(broker, at(0, "no such"))
    leader.fetch(OTHER, at(0))
    assert leader.answers[-1].error is ErrorCode.fetch_session_id_not_found

    leader.pass_time(400_000)  # what is parked is answered
    leader.pass_time(400_000)
    refused = len(leader.answers)
    leader.fetch(OTHER, at(0))

    assert len(leader.answers) == refused
    assert leader.given[-1][0][1] > 0


FETCHES = st.builds(
    FollowerFetch,
    broker=st.sampled_from([BROKER, OTHER, THIRD, STRANGER, INT32_MAX]),
    machine=st.sampled_from(["here", "there", ""]),
    session=NUMBERS,
    sequence=st.sampled_from([0, 0, 1, 2, INT64_MAX]),
    partitions=st.lists(
        st.builds(FetchPosition, TOPICS, PARTITIONS, EPOCHS, OFFSETS, EPOCHS, OFFSETS), max_size=5
    ),
    forgotten=st.lists(st.builds(TopicPartition, TOPICS, PARTITIONS), max_size=5),
    max_wait_ms=NUMBERS,
    max_bytes=NUMBERS,
    by_file=st.booleans(),
)


@examples(100)
@given(st.lists(FETCHES, max_size=10))
def test_any_fetches_leave_the_leader_as_it_was(fetches: list[FollowerFetch]) -> None:
    with TemporaryDirectory() as directory, Leader(Path(directory)) as leader:
        for number, fetch in enumerate(fetches):
            received = decode([bytes(frame) for frame in encode(fetch)])
            leader.side.on_fetch(b"%d" % (number % 2), received, leader.now_ms)
            leader.pass_time(100)
            leader.side.on_news([TopicPartition("t", 0)])
        partition = leader.stage.partition("t")
        assert partition.log.log_end_offset == 3
        assert partition.high_watermark <= 3
        assert len(leader.answers) + len(leader.given) <= 3 * len(fetches) + 3


class Follower:
    """Follows t-0 of OTHER, with three records; what it asks is kept."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stage = HandlerStage(directory / "data")
        self.stage.update(a_topic("t", a_partition([OTHER, BROKER])))
        self.asked: list[FollowerFetch] = []
        self.compact_requests: list[bytes] = []
        self.last = (0, 0)
        """Session and sequence of the last request."""
        self.files = SegmentFiles()
        self.fetcher = FollowerFetcher(
            BrokerId(OTHER),
            FetchOptions(BrokerId(BROKER), "here", 500, 1 << 20, 1_000, by_file=True),
            self,
            self.files,
            Random(1),
            lambda _partition: None,
        )
        self.partition = self.stage.partition("t")
        records = build_batch([NewRecord(b"v")] * 3, leader_epoch=0)
        self.log.append_as_follower(memoryview(records), WallMs(0))
        self.fetcher.follow(self.partition)
        self.now_ms = MonotonicMs(0)
        self.fetcher.ask(self.now_ms)

    def send(self, fetch: FollowerFetch) -> bool:
        self.asked.append(fetch)
        self.last = (fetch.session, fetch.sequence)
        return True

    def send_compact(self, message: bytes) -> bool:
        _, _, session, sequence = FETCH_HEAD.unpack_from(message)
        self.last = (session, sequence)
        self.compact_requests.append(message)
        return True

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    def receive(self, *partitions: FetchedPartition) -> None:
        """An answer to its last request, unless it is refused as a message."""
        answer = FetchAnswer(*self.last, ErrorCode.none, partitions)
        try:
            received = decode([bytes(frame) for frame in encode(answer)])
        except PeerError:
            self.fetcher.on_malformed_answer(self.now_ms)
            return
        self.fetcher.on_answer(received, self.now_ms, WallMs(0))

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms = MonotonicMs(self.now_ms + duration_ms)
        self.fetcher.on_tick(self.now_ms)

    def check_log(self) -> None:
        """Its offsets are in order, and its records can be read."""
        log = self.log
        assert 0 <= log.log_start_offset <= log.log_end_offset
        assert self.partition.high_watermark <= log.log_end_offset
        if log.log_start_offset < log.log_end_offset:
            log.read(
                log.log_start_offset,
                1 << 20,
                upper_offset=log.log_end_offset,
                at_least_one_batch=True,
            )

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.files.close()
        self.stage.__exit__()


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    with Follower(tmp_path) as made:
        yield made


def answered(records: Any = None, **changes: Any) -> FetchedPartition:
    members: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "leader_epoch": 0,
        "error": ErrorCode.none,
        "high_watermark": 3,
        "log_start_offset": 0,
        "records": records,
    }
    return FetchedPartition(**(members | changes))


def test_a_malformed_answer_is_asked_for_again_after_a_pause(follower: Follower) -> None:
    first = follower.asked[-1]
    follower.receive(answered(log_start_offset=9))
    follower.pass_time(999)
    assert follower.asked == [first]
    follower.pass_time(1)

    again = follower.asked[-1]
    assert (again.sequence, again.partitions) == (0, first.partitions)
    assert again.session != first.session
    follower.receive(answered(bytes(build_batch([NewRecord(b"w")], base_offset=3))))
    assert follower.log.log_end_offset == 4


def test_a_file_that_is_too_short_reserves_nothing(follower: Follower) -> None:
    """What a leader announces would else be allocated on this broker's disk first."""
    path = follower.directory / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(b"short")
    held_before = sum(one.stat().st_size for one in follower.log.directory.iterdir())

    for size in (6, 1 << 30, INT32_MAX):
        follower.receive(answered(FileSource(str(path), path.stat().st_ino, 0, size)))

    assert follower.log.log_end_offset == 3
    assert sum(one.stat().st_size for one in follower.log.directory.iterdir()) == held_before
    assert not follower.asked[-1].by_file  # it has the bytes sent instead


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "absent"])
def test_only_plain_files_are_read(follower: Follower, kind: str) -> None:
    path = follower.directory / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    secret = follower.directory / "secret"
    secret.write_bytes(bytes(build_batch([NewRecord(b"secret")], base_offset=3)))
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(secret)
        case "directory":
            path.mkdir()
        case _:
            pass
    inode = path.stat().st_ino if path.exists() else 1
    source = FileSource(str(path), inode, 0, secret.stat().st_size)

    assert follower.files.read(str(path), inode, 0, source.size_bytes) is None
    follower.receive(answered(source))

    assert follower.log.log_end_offset == 3


RECORDS = st.sampled_from(
    [
        None,
        b"",
        b"no batch at all, but longer than the header of one, as a whole batch would have to be",
        bytes(build_batch([NewRecord(b"w")], base_offset=3)),
        bytes(build_batch([NewRecord(b"w")], base_offset=3))[:-1],
        bytes(build_batch([NewRecord(b"w")], base_offset=0)),
        bytes(build_batch([NewRecord(b"w")], base_offset=INT64_MAX - 1)),
        bytes(build_batch([NewRecord(b"w")], base_offset=3, leader_epoch=INT32_MAX)),
        FileSource(f"/no/such/t-0/{0:020}.log", 1, 0, INT32_MAX),
        FileSource("/etc/passwd", 1, 0, 10),
    ]
)
ANSWERS = st.builds(
    FetchedPartition,
    topic=st.sampled_from(["t", "t", "t", "u"]),
    partition=st.sampled_from([0, 0, 0, 1]),
    leader_epoch=st.sampled_from([0, 0, 0, 1, -1]),
    error=st.sampled_from([ErrorCode.none] * 5 + list(ErrorCode)),
    high_watermark=OFFSETS,
    log_start_offset=OFFSETS | st.just(-1),
    diverging=st.none() | st.none() | st.tuples(EPOCHS, OFFSETS | st.just(-1)),
    records=RECORDS,
)


@examples(150)
@given(st.lists(st.lists(ANSWERS, max_size=3), max_size=8))
def test_any_answers_leave_a_log_that_can_be_read(
    answers: list[list[FetchedPartition]],
) -> None:
    with TemporaryDirectory() as directory, Follower(Path(directory)) as follower:
        for partitions in answers:
            follower.receive(*partitions)
            follower.pass_time(500)
            follower.check_log()
        follower.pass_time(20_000)
        follower.pass_time(5_000)
        follower.pass_time(5_000)
        # It goes on asking, whatever came.
        assert follower.asked[-1].partitions or follower.compact_requests


ENTRY_OFFSETS = st.sampled_from([-2, -1, 0, 1, 3, 4, 100, INT64_MAX])
ENTRY_NUMBERS = st.sampled_from([-1, 0, 1, 5, INT32_MAX])
FETCH_MESSAGES = st.builds(
    lambda broker, session, sequence, entries: (
        FETCH_HEAD.pack(COMPACT_FETCH, broker, session, sequence)
        + b"".join(FETCH_ENTRY.pack(*entry) for entry in entries)
    ),
    st.sampled_from([OTHER, THIRD, STRANGER]),
    st.sampled_from([5, 6]),
    st.integers(0, 8),
    st.lists(
        st.tuples(
            *(ENTRY_NUMBERS, ENTRY_NUMBERS, ENTRY_OFFSETS),
            *(ENTRY_NUMBERS, ENTRY_OFFSETS, ENTRY_NUMBERS),
        ),
        max_size=3,
    ),
)


@examples(100)
@given(st.lists(FETCH_MESSAGES | st.binary(max_size=80), max_size=10))
def test_any_compact_fetches_leave_the_leader_as_it_was(messages: list[bytes]) -> None:
    with TemporaryDirectory() as directory, Leader(Path(directory)) as leader:
        leader.fetch(OTHER, at(0), sequence=0)
        for message in messages:
            with suppress(PeerError):
                leader.side.on_compact_fetch(b"peer", message, leader.now_ms)
            leader.pass_time(100)
            leader.side.on_news([TopicPartition("t", 0)])
        partition = leader.stage.partition("t")
        assert partition.log.log_end_offset == 3
        assert partition.high_watermark <= 3


ANSWER_MESSAGES = st.tuples(
    st.integers(-1, 1),
    st.lists(
        st.tuples(
            st.sampled_from([-1, 0, 0, 0, 1, INT32_MAX]),
            st.sampled_from([-1, 0, 0, 0, 1]),
            ENTRY_OFFSETS,
            ENTRY_OFFSETS,
            st.sampled_from([-3, -2, -1, 0, 1, 50, INT64_MAX]),
            st.sampled_from([-1, 0, 10, 69, 73, INT32_MAX]),
        ),
        max_size=3,
    ),
    st.lists(RECORDS.filter(lambda records: isinstance(records, bytes)), max_size=2),
)


@examples(150)
@given(st.lists(ANSWER_MESSAGES | st.binary(max_size=80), max_size=8))
def test_any_compact_answers_leave_a_log_that_can_be_read(answers: list[Any]) -> None:
    with TemporaryDirectory() as directory, Follower(Path(directory)) as follower:
        for answer in answers:
            if isinstance(answer, bytes):
                message, frames = answer, []
            else:
                shift, entries, frames = answer
                session, sequence = follower.last
                message = ANSWER_HEAD.pack(COMPACT_ANSWER, session, max(0, sequence + shift))
                message += b"".join(ANSWER_ENTRY.pack(*entry) for entry in entries)
            try:
                follower.fetcher.on_compact_answer(message, frames, follower.now_ms, WallMs(0))
            except PeerError:
                follower.fetcher.on_malformed_answer(follower.now_ms)
            follower.pass_time(500)
            follower.check_log()
