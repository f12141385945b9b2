"""Metric records find the leader of their partition, wait for one, and are never written twice."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.brokers.metrics import topic as topic_module
from cluster.brokers.metrics.records import MetricRecord
from cluster.brokers.metrics.topic import (
    BATCH_MAX_BYTES,
    CONFIGS,
    RECORD_MAX_BYTES,
    MetricTopic,
)
from cluster.brokers.replication.own_appends import AppendOutcome
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.topics import METRICS_TOPIC
from cluster.protocol.peer.control import Acknowledged, ProduceMetrics, Refusal
from cluster.records.batch import Compression
from cluster.records.produced import BatchLimits, validate_produced
from cluster.records.reader import read_records


class World:
    """The surroundings of the topic on broker 4 of five; time stands still unless moved."""

    def __init__(self):
        self.now_ms = MonotonicMs(0)
        self.loop = self
        self.brokers = {b: SimpleNamespace(control_endpoint=f"at-{b}") for b in range(5)}
        self.topics = {}
        self.leads = True
        self.commits = True
        self.refuses = None
        self.outcomes = []
        self.appended = []
        self.asked = []
        self.created = []
        everything: Any = self
        self.topic = MetricTopic(BrokerId(4), everything, everything, everything, everything)

    # the internal topics
    def append(self, partition, records, on_outcome):
        known = {(METRICS_TOPIC, 0), (METRICS_TOPIC, 1)}
        if self.refuses is not None:
            code, self.refuses = self.refuses, None
            on_outcome(AppendOutcome(code, is_appended=False, detail="refused"))
        elif self.leads and partition in known:
            self.appended.append(bytes(records))
            self.outcomes.append(on_outcome)
            if self.commits:
                on_outcome(AppendOutcome(ErrorCode.none, is_appended=True))
        else:
            on_outcome(AppendOutcome(ErrorCode.not_leader_or_follower, is_appended=False))

    # the control link, the controller
    def ask(self, endpoint, request, on_reply, timeout_ms):
        self.asked.append((endpoint, request, on_reply))

    def create_topics(self, topics, *, validate_only, timeout_ms, on_done):
        self.created.append((topics[0], on_done))

    def send(self, values, timestamp_ms):
        self.topic.send([MetricRecord(value, WallMs(timestamp_ms)) for value in values])

    def has_leaders(self, *leaders):
        partitions = {n: SimpleNamespace(leader=leader) for n, leader in enumerate(leaders)}
        self.topics = {METRICS_TOPIC: SimpleNamespace(partitions=partitions)}

    def written(self):
        return [values_of(batch) for batch in self.appended]


def values_of(batch):
    return [record.value for record in read_records(batch)]


@pytest.fixture
def world():
    return World()


def test_leader_appends_its_own_records(world):
    world.has_leaders(0, 4)  # 4 % 2 partitions is 0
    world.has_leaders(4, 0)
    world.send([b"a", b"b"], 5)
    assert world.written() == [[b"a", b"b"]]
    (record, _) = read_records(world.appended[0])
    assert (record.key, record.timestamp_ms) == (b"4", 5)
    assert world.asked == []


def test_batches_are_sent_to_another_leader_one_at_a_time(world):
    world.has_leaders(2, 4)
    world.send([b"a"], 1)
    world.send([b"b"], 2)
    ((endpoint, request, on_reply),) = world.asked
    assert (endpoint, request.partition, values_of(request.batch)) == ("at-2", 0, [b"a"])
    on_reply(Acknowledged(ErrorCode.none))
    assert [values_of(request.batch) for _, request, _ in world.asked] == [[b"a"], [b"b"]]


def test_a_refused_batch_is_offered_again_to_the_next_leader(world):
    world.has_leaders(2)
    world.send([b"a"], 1)
    world.asked[0][2](Acknowledged(ErrorCode.not_leader_or_follower))
    assert len(world.asked) == 1  # not immediately: the update about another leader is on its way
    world.has_leaders(3)
    world.send([b"b"], 2)
    assert world.asked[1][0] == "at-3"
    assert values_of(world.asked[1][1].batch) == [b"a"]
    assert world.topic.dropped_count == 0


@pytest.mark.parametrize("answer", [None, Refusal(ErrorCode.invalid_request, "too large")])
def test_batch_is_dropped_when_its_fate_is_unknown_or_it_is_refused(world, answer):
    world.has_leaders(2)
    world.send([b"a", b"b"], 1)
    world.asked[0][2](answer)
    world.send([b"c"], 2)
    assert values_of(world.asked[1][1].batch) == [b"c"]
    assert world.topic.dropped_count == 2


def test_without_a_leader_records_wait_and_the_oldest_are_dropped(world):
    for number in range(134):
        world.send([b"%d" % number], number)
    world.has_leaders(9)  # known, but not alive
    world.topic.flush()
    assert (world.appended, world.asked) == ([], [])
    assert world.topic.dropped_count == 6
    world.has_leaders(4)
    world.topic.flush()
    assert world.written() == [[b"%d" % number] for number in range(6, 134)]


def test_batch_of_a_peer_is_appended(world):
    answers = []
    world.has_leaders(4)
    world.topic.on_request(ProduceMetrics(1, b"x"), answers.append)
    world.leads = False
    world.topic.on_request(ProduceMetrics(1, b"x"), answers.append)
    world.topic.on_request(ProduceMetrics(8, b"x"), answers.append)
    refused = Acknowledged(ErrorCode.not_leader_or_follower)
    assert answers == [Acknowledged(ErrorCode.none), refused, refused]
    assert world.appended == [b"x"]


def test_a_partition_that_is_not_known_yet_is_waited_for(world):
    world.has_leaders(1, 4)
    del world.topics[METRICS_TOPIC].partitions[0]
    world.topics[METRICS_TOPIC].partitions[5] = SimpleNamespace(leader=1)
    world.send([b"a"], 1)
    assert (world.appended, world.asked) == ([], [])
    world.has_leaders(4)
    world.topic.flush()
    assert world.written() == [[b"a"]]


def test_many_records_are_several_batches(world):
    world.has_leaders(4)
    world.send([b"v"] * 1_100, 1)
    assert [len(values) for values in world.written()] == [500, 500, 100]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("size_bytes", [1, 1_000, 70_000, RECORD_MAX_BYTES])
def test_no_batch_is_larger_than_the_topic_takes(world, codec, size_bytes, monkeypatch):
    """Even if nothing can be compressed."""
    monkeypatch.setattr(topic_module, "_CODEC", codec)
    noise = Random(1)
    values = [noise.randbytes(size_bytes) for _ in range(2 * BATCH_MAX_BYTES // size_bytes)]
    values = values[:1_200]
    world.has_leaders(4)
    world.send(values, 5)
    assert [value for values in world.written() for value in values] == values
    limits = BatchLimits(int(CONFIGS["max.message.bytes"]))
    for batch in world.appended:
        validate_produced(memoryview(batch), limits, WallMs(5))
    assert world.topic.dropped_count == 0


def test_batches_are_filled_up_to_the_bound(world):
    world.has_leaders(4)
    world.send([Random(1).randbytes(1_000)] * 1_200, 5)
    assert [len(values) for values in world.written()] == [500, 500, 200]
    world.appended.clear()
    world.send([Random(1).randbytes(2_000)] * 400, 5)
    assert [len(values) for values in world.written()] == [256, 144]


def test_only_records_that_readers_refuse_are_dropped(world):
    world.has_leaders(4)
    world.send([b"a", bytes(RECORD_MAX_BYTES + 1), b"b"], 5)
    assert world.written() == [[b"a", b"b"]]
    assert world.topic.dropped_count == 1


def test_batch_that_the_log_refuses_delays_no_others(world, caplog):
    """For instance if somebody has set a smaller `max.message.bytes`."""
    world.has_leaders(4)
    world.refuses = ErrorCode.message_too_large
    world.send([b"a", b"b"], 1)
    world.send([b"c"], 2)
    assert world.written() == [[b"c"]]
    assert world.topic.dropped_count == 2
    assert "cannot write metric records: refused" in caplog.text


def test_peer_learns_that_its_batch_is_refused(world):
    answers = []
    world.refuses = ErrorCode.message_too_large
    world.topic.on_request(ProduceMetrics(1, b"x"), answers.append)
    assert answers == [Refusal(ErrorCode.message_too_large, "refused")]


def test_each_record_keeps_its_own_time_when_it_waits_or_goes_to_a_peer(world):
    records = [MetricRecord(b"%d" % ms, WallMs(ms)) for ms in (7, 5, 9)]
    world.topic.send(records)
    world.now_ms = 60_000
    world.has_leaders(2)
    world.topic.send([MetricRecord(b"60000", WallMs(60_000))])
    world.asked[0][2](Acknowledged(ErrorCode.not_leader_or_follower))
    world.has_leaders(4)
    world.topic.flush()
    batches = [world.asked[0][1].batch, *world.appended]
    found = [
        (each.key, int(each.value), each.timestamp_ms) for b in batches for each in read_records(b)
    ]
    assert found == [(b"4", ms, ms) for ms in (7, 5, 9, 7, 5, 9, 60_000)]


def test_the_topic_is_created_once_the_brokers_have_settled(world):
    world.topic.create_if_missing(world, 3)
    world.now_ms = 1_000
    del world.brokers[1]
    world.topic.create_if_missing(world, 3)
    world.now_ms = 2_400
    world.topic.create_if_missing(world, 3)
    assert world.created == []
    world.now_ms = 2_500
    world.topic.create_if_missing(world, 3)
    world.topic.create_if_missing(world, 3)
    ((topic, on_done),) = world.created
    assert topic.configs["retention.bytes"] == str(1 << 30)
    assert topic.configs["segment.bytes"] == str(64 << 20)
    assert topic.configs["max.message.bytes"] == str(512 << 10)
    assert topic.name == METRICS_TOPIC
    assert topic.assignment == {0: (0, 2, 3), 1: (2, 3, 4), 2: (3, 4, 0), 3: (4, 0, 2)}
    on_done({METRICS_TOPIC: SimpleNamespace(code=ErrorCode.not_controller)}, {})
    world.topic.create_if_missing(world, 3)
    assert len(world.created) == 2
    world.has_leaders(*[0] * 4)
    world.created[1][1]({METRICS_TOPIC: SimpleNamespace(code=ErrorCode.none)}, {})
    world.topic.create_if_missing(world, 3)
    assert len(world.created) == 2


def test_too_few_brokers_for_its_replicas_create_nothing(world):
    world.brokers = {0: None, 1: None}
    world.topic.create_if_missing(world, 3)
    world.now_ms = 60_000
    world.topic.create_if_missing(world, 3)
    assert world.created == []
    assert METRICS_TOPIC not in world.topics


def test_the_next_batch_waits_until_the_one_before_is_committed(world):
    world.commits = False
    world.has_leaders(4)
    world.send([b"a"], 1)
    world.send([b"b"], 2)
    assert world.written() == [[b"a"]]
    world.outcomes[0](AppendOutcome(ErrorCode.none, is_appended=True))
    assert world.written() == [[b"a"], [b"b"]]


def test_a_batch_that_is_in_the_log_but_not_committed_is_not_written_again(world):
    world.commits = False
    world.has_leaders(4)
    world.send([b"a", b"b"], 1)
    world.outcomes[0](AppendOutcome(ErrorCode.not_leader_or_follower, is_appended=True))
    world.send([b"c"], 2)
    assert world.written() == [[b"a", b"b"], [b"c"]]
    assert world.topic.dropped_count == 2


def test_waiting_batches_are_bounded_in_bytes():
    world = World()
    noise = Random(1)
    for _ in range(100):  # 40 MB, which do not compress
        world.send([noise.randbytes(200_000), noise.randbytes(200_000)], 5)
    world.has_leaders(4)
    world.topic.flush()
    assert len(world.appended) == (16 << 20) // 400_150
    assert world.topic.dropped_count == 2 * (100 - len(world.appended))


def test_records_are_written_compressed():
    world = World()
    world.has_leaders(4)
    value = b'{"v":1,"kind":"group","group":"%d","state":"Empty"}'
    world.send([value % number for number in range(200)], 5)
    (batch,) = world.appended
    assert len(batch) < 200 * len(value) / 4
    assert values_of(batch) == [value % number for number in range(200)]
