"""Reading a topic from its leaders: refusals, silent brokers, turns of partitions."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.client.fetch_requests import VERSION
from cluster.client.security import Address
from cluster.client.socket_client import SocketClient
from cluster.dashboard.messages.budget import Budget
from cluster.dashboard.messages.paging import Range
from cluster.dashboard.messages.topic_log import ANSWER_S, TopicLog
from cluster.model.errors import ErrorCode, UserError
from cluster.protocol.api import ApiKey
from cluster.protocol.fetch_codec import FetchedPartition, pack_fetch_response, scan_fetch_request

LEADERS = {0: 7, 1: 8, 2: 7, 3: -1}


class Brokers:
    """Brokers 7 and 8, which lead the partitions of one topic."""

    def __init__(self) -> None:
        self.topic_error = ErrorCode.none
        self.errors: dict[int, ErrorCode] = {}
        self.silent: set[int] = set()
        self.lost_at: set[tuple[int, int]] = set()
        """Brokers with the times that they are asked for when their connections are lost."""
        self.room = 10
        """Partitions in one answer to a fetch."""
        self.fetched: list[list[int]] = []
        self.patience: list[float] = []

    def connect(self, addresses: Iterable[Address], timeout_s: float) -> SocketClient:
        self.patience.append(timeout_s)
        (_, port), *_ = addresses
        if port in self.silent:
            raise UserError(f"cannot connect to b:{port} (timed out)")
        return cast(SocketClient, Connection(self, port))

    def denied(self, topic: str) -> UserError:
        return UserError(f"{topic} is denied")

    def gone(self, topic: str) -> UserError:
        return UserError(f"there is no topic {topic}")


class Connection:
    def __init__(self, brokers: Brokers, broker: int) -> None:
        self._brokers = brokers
        self._broker = broker
        self._asked = b""

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def wait_for_answers(self, timeout_s: float) -> None:
        self._brokers.patience.append(timeout_s)

    def call(self, key: ApiKey, request: Any) -> Any:
        if key is ApiKey.METADATA:
            (topic,) = request.topics
            assert (topic.name, request.allow_auto_topic_creation) == ("orders", False)
            partitions = [
                SimpleNamespace(partition_index=number, leader_id=leader)
                for number, leader in LEADERS.items()
            ]
            told = SimpleNamespace(error_code=self._brokers.topic_error, partitions=partitions)
            nodes = [SimpleNamespace(node_id=each, host="b", port=each) for each in (7, 8)]
            return SimpleNamespace(topics=(told,), brokers=nodes)
        (topic,) = request.topics
        if any(
            (self._broker, each.timestamp) in self._brokers.lost_at for each in topic.partitions
        ):
            raise UserError(f"lost the broker at b:{self._broker}")
        answers = [
            SimpleNamespace(
                partition_index=each.partition_index,
                error_code=self._brokers.errors.get(each.partition_index, ErrorCode.none),
                offset=10 if each.timestamp == -2 else 20 + request.isolation_level,
            )
            for each in topic.partitions
        ]
        return SimpleNamespace(topics=[SimpleNamespace(partitions=answers)])

    def send(self, key: ApiKey, version: int, body: bytes) -> int:
        assert (key, version) == (ApiKey.FETCH, VERSION)
        self._asked = body
        return 1

    def receive(self, _correlation_id: int) -> bytes:
        request = scan_fetch_request(VERSION, memoryview(self._asked), 0)
        ((_, _, asked),) = request.topics
        self._brokers.fetched.append([each.index for each in asked])
        answers = []
        for at, each in enumerate(asked):
            records = b"batch" if at < self._brokers.room else b""
            code = int(self._brokers.errors.get(each.index, ErrorCode.none))
            answers.append(
                FetchedPartition(each.index, code, records_size_bytes=len(records), records=records)
            )
        items = pack_fetch_response(VERSION, 1, [("orders", None, answers)])
        return b"".join(bytes(cast(bytes, item)) for item in items)[8:]


def log_of(brokers: Brokers, *, seconds: float = 5, committed: bool = False) -> TopicLog:
    budget = Budget(lambda: 0.0, seconds=seconds)
    addresses = [("b", 7), ("b", 8)]
    return TopicLog(
        "orders", addresses, brokers.connect, brokers, budget, is_committed_only=committed
    )


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def test_offsets_are_asked_of_each_leader(brokers: Brokers) -> None:
    with log_of(brokers) as log:
        assert log.partitions == [0, 1, 2, 3]
        assert log.ranges(log.partitions) == {
            0: Range(10, 20),
            2: Range(10, 20),
            1: Range(10, 20),
        }
        assert log.failed == {3: "it has no leader at present"}
    with log_of(brokers, committed=True) as log:
        assert log.ranges([0]) == {0: Range(10, 21)}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.topic_authorization_failed, "orders is denied"),
        (ErrorCode.invalid_topic_exception, "there is no topic orders"),
    ],
)
def test_a_topic_that_cannot_be_read_is_refused_in_words(
    brokers: Brokers, code: ErrorCode, words: str
) -> None:
    with log_of(brokers) as log:
        brokers.errors[0] = code
        with pytest.raises(UserError, match=words):
            log.ranges([0])
        with pytest.raises(UserError, match=words):
            log.fetch({0: 10})
    brokers.topic_error = code
    with pytest.raises(UserError, match=words):
        log_of(brokers)


def test_a_topic_that_is_not_in_the_metadata_does_not_exist(brokers: Brokers) -> None:
    brokers.topic_error = ErrorCode.unknown_topic_or_partition
    with pytest.raises(UserError, match="there is no topic orders"):
        log_of(brokers)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.not_leader_or_follower, "its leader is changing: read again"),
        (ErrorCode.offset_out_of_range, "its first records were deleted meanwhile: read again"),
        (
            ErrorCode.unknown_topic_or_partition,
            "its leader does not have it yet, or no longer: read again",
        ),
    ],
)
def test_a_partition_that_cannot_be_read_leaves_the_others(
    brokers: Brokers, code: ErrorCode, words: str
) -> None:
    brokers.errors[0] = code
    with log_of(brokers) as log:
        answers, failed = log.fetch({0: 10, 1: 10, 2: 10})
    assert sorted(answers) == [1, 2]
    assert failed == {0: words}


def test_a_partition_whose_leader_refuses_it_leaves_the_others(brokers: Brokers) -> None:
    brokers.errors[0] = ErrorCode.kafka_storage_error
    with log_of(brokers) as log:
        assert sorted(log.ranges([0, 1, 2])) == [1, 2]
        assert log.failed[0] == "its leader refuses: kafka storage error"


def test_a_partition_that_failed_before_a_round_fails_in_it(brokers: Brokers) -> None:
    """Else a page would ask for it until the time is over."""
    with log_of(brokers) as log:
        log.ranges([0, 1])
        brokers.lost_at.add((8, 5))
        log.offsets_at([0, 1], 5)
        answers, failed = log.fetch({0: 10, 1: 10})
    assert sorted(answers) == [0]
    assert failed == {1: "its leader, broker 8, does not answer: lost the broker at b:8"}


def test_a_silent_leader_is_named_and_asked_once(brokers: Brokers) -> None:
    with log_of(brokers) as log:
        brokers.silent.add(8)
        assert sorted(log.ranges([0, 1, 2])) == [0, 2]
        why = "its leader, broker 8, does not answer: cannot connect to b:8 (timed out)"
        assert log.failed[1] == why
        count = len(brokers.patience)
        assert sorted(log.fetch({0: 10, 1: 10}).answers) == [0]
        assert len(brokers.patience) == count + 1


def test_no_answer_is_waited_for_longer_than_there_is_time(brokers: Brokers) -> None:
    with log_of(brokers, seconds=60) as log:
        log.ranges([0])
    assert set(brokers.patience) == {ANSWER_S}
    brokers.patience.clear()
    with log_of(brokers, seconds=0.5) as log:
        log.ranges([0])
    assert set(brokers.patience) == {0.5}
    with log_of(brokers, seconds=0) as log:
        assert log.fetch({0: 10}).answers == {}


def test_partitions_that_got_nothing_come_first(brokers: Brokers) -> None:
    brokers.room = 1
    with log_of(brokers) as log:
        for _ in range(3):
            log.fetch({0: 10, 2: 10})
    assert brokers.fetched == [[0, 2], [2, 0], [0, 2]]
