"""The coordinator runtime with shards of another kind than groups, on a real broker."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.coordinators.coordinator import Coordinator
from cluster.brokers.coordinators.led_shard import LedShard
from cluster.coordinator.shards.load_times import LoadFigures
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import LeaderEpoch, TopicPartition
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.cluster_states import a_partition, a_topic
from tests.support.group_requests import commit_offsets, committed_in, lead_offsets_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.unit.brokers.coordinators.counters import LIFETIME_MS, Add, CounterShard, Delete, Value
from tests.unit.brokers.coordinators.runtime_stage import coordinator_options, coordinator_ports

TOPIC = "__counters"
TIMEOUT_MS = 5_000
NONE = ErrorCode.none


class Counters:
    """A coordinator of counters, and what its clients are answered."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        self.made: list[tuple[int, LeaderEpoch]] = []
        self.unloaded: list[tuple[TopicPartition, bool]] = []
        self.replies: list[ErrorCode] = []
        self.change_options()

    def change_options(self, **others: bool) -> None:
        """Replace the coordinator."""
        stage = self.stage
        self.coordinator = Coordinator(
            coordinator_options(TOPIC, append_timeout_ms=TIMEOUT_MS, load_buffer_bytes=1, **others),
            coordinator_ports(stage),
            self._new_shard,
            self._before_unload,
        )

    def _new_shard(self, partition: TopicPartition, epoch: LeaderEpoch) -> CounterShard:
        self.made.append((partition.partition, epoch))
        return CounterShard()

    def _before_unload(self, led: LedShard[CounterShard]) -> None:
        self.unloaded.append((led.id, led.is_loading))

    def lead(self, replicas: tuple[int, ...] = (BROKER,), epoch: int = 0, count: int = 1) -> None:
        """This broker leads all partitions in an epoch, which grows by more than 1 with each call:
        others may have led meanwhile.
        """
        partition = a_partition(replicas, leader_epoch=epoch, partition_epoch=epoch)
        self.stage.update(a_topic(TOPIC, *[partition] * count))

    def figures(self) -> LoadFigures:
        """How long loads took."""
        return self.coordinator.load_times.figures(self.stage.clock.monotonic_ms())

    def lose(self, epoch: int) -> None:
        """Another broker leads the partition."""
        moved = a_partition(
            (BROKER, OTHER), leader=OTHER, leader_epoch=epoch, partition_epoch=epoch
        )
        self.stage.update(a_topic(TOPIC, moved))

    def settle(self) -> None:
        """Let long work come to its end."""
        while not self.stage.slices.is_idle:
            self.stage.turn()

    def add(self, name: str = "a", amount: int = 1, **producer: int) -> list[ErrorCode]:
        """Submit the request, finish the turn, and return all replies so far."""
        request = Add(name, amount, **producer)
        self.coordinator.find(name).submit(request, self.replies.append)
        self.stage.turn()
        return self.replies

    def value(self, name: str = "a") -> int | None:
        return self.coordinator.find(name).ask(Value(name))

    def refusal(self, name: str = "a") -> ErrorCode:
        with pytest.raises(Refused) as refused:
            self.coordinator.find(name)
        return refused.value.code

    def replicate(self) -> None:
        """The follower fetches everything."""
        partition = self.stage.partition(TOPIC)
        self.stage.follower_fetches(OTHER, partition, partition.log.log_end_offset)


@pytest.fixture
def counters(tmp_path: Path) -> Iterator[Counters]:
    with HandlerStage(tmp_path / "data") as stage:
        yield Counters(stage)


# -- requests --------------------------------------------------------------------------------------


def test_a_request_is_answered_when_its_record_is_replicated(counters: Counters) -> None:
    counters.lead((BROKER, OTHER))
    assert counters.add() == []
    assert counters.value() is None
    counters.replicate()
    assert counters.replies == [NONE]
    assert counters.value() == 1


def test_a_late_request_is_answered_once_and_counts_when_it_is_stored(counters: Counters) -> None:
    counters.lead((BROKER, OTHER))
    counters.add()
    counters.stage.pass_time(TIMEOUT_MS)
    assert counters.replies == [ErrorCode.request_timed_out]
    counters.replicate()
    assert counters.replies == [ErrorCode.request_timed_out]
    assert counters.value() == 1


def test_a_counter_is_deleted_by_a_tick_when_its_time_is_over(counters: Counters) -> None:
    counters.lead()
    counters.add("a")
    counters.stage.pass_time(LIFETIME_MS - 1)
    counters.add("b")
    assert (counters.value("a"), counters.value("b")) == (1, 1)
    counters.stage.pass_time(1)
    counters.stage.turn()
    assert (counters.value("a"), counters.value("b")) == (None, 1)
    counters.lead(epoch=2)
    counters.settle()
    assert (counters.value("a"), counters.value("b")) == (None, 1)


# -- finding the shard of a key --------------------------------------------------------------------


def test_keys_are_spread_over_the_partitions_of_the_topic(counters: Counters) -> None:
    assert counters.coordinator.partition_of("a") is None
    assert counters.refusal() is ErrorCode.not_coordinator
    counters.lead(count=3)
    found = {counters.coordinator.partition_of(name) for name in "abcdefgh"}
    assert found == {TopicPartition(TOPIC, number) for number in range(3)}
    assert len(counters.coordinator.all_loaded()) == 3


def test_a_key_that_no_record_can_hold_is_refused(counters: Counters) -> None:
    counters.lead()
    assert counters.refusal("k" * 32_768) is ErrorCode.invalid_request
    assert counters.coordinator.find("k" * 32_767)


# -- leadership ------------------------------------------------------------------------------------


def test_a_shard_is_loaded_again_in_each_leadership(counters: Counters) -> None:
    counters.lead()
    counters.add("a", 2)
    counters.add("b")
    for epoch in (2, 4):
        counters.lead(epoch=epoch)
        counters.settle()
        assert (counters.value("a"), counters.value("b")) == (2, 1)
    assert counters.made == [(0, 0), (0, 2), (0, 4)]
    assert counters.unloaded == [(TopicPartition(TOPIC, 0), False)] * 2


def test_a_request_that_waits_is_answered_when_leadership_is_lost(counters: Counters) -> None:
    counters.lead((BROKER, OTHER))
    counters.add()
    counters.lose(epoch=2)
    assert counters.replies == [ErrorCode.not_leader_or_follower]
    assert counters.refusal() is ErrorCode.not_coordinator
    assert counters.coordinator.all_loaded() == []
    counters.stage.pass_time(LIFETIME_MS)
    assert counters.replies == [ErrorCode.not_leader_or_follower]


def test_memory_is_freed_after_leadership_is_lost(counters: Counters) -> None:
    counters.lead()
    counters.add("a")
    led = counters.coordinator.find("a")
    counters.lose(epoch=2)
    counters.settle()
    assert led.ask(Value("a")) is None


def test_requests_are_refused_while_a_shard_is_being_loaded(counters: Counters) -> None:
    counters.lead()
    for number in range(200):
        counters.add(f"c{number}")
    counters.coordinator.on_resigned(TopicPartition(TOPIC, 0))
    counters.coordinator.on_elected(counters.stage.partition(TOPIC), LeaderEpoch(1))
    assert counters.coordinator.is_loading
    assert counters.refusal() is ErrorCode.coordinator_load_in_progress
    assert counters.coordinator.all_loaded() == []
    assert counters.figures() == (0, 0)
    counters.stage.clock.pass_time(70)
    counters.settle()
    assert counters.figures() == (70, 35), "the first election took no time"
    assert not counters.coordinator.is_loading
    assert counters.value("c199") == 1


def test_an_event_reaches_shards_that_are_being_loaded_and_others(counters: Counters) -> None:
    counters.lead()
    for name in ("a", "b", "c"):
        counters.add(name)
    counters.coordinator.tell_all(Delete("a"))
    counters.stage.turn()
    assert (counters.value("a"), counters.value("b")) == (None, 1)
    counters.coordinator.on_resigned(TopicPartition(TOPIC, 0))
    counters.coordinator.on_elected(counters.stage.partition(TOPIC), LeaderEpoch(1))
    assert counters.coordinator.is_loading
    counters.coordinator.tell_all(Delete("b"))
    counters.settle()
    counters.stage.turn()
    assert [counters.value(name) for name in ("a", "b", "c")] == [None, None, 1]


def test_a_shard_may_wait_until_what_it_has_loaded_is_committed(counters: Counters) -> None:
    counters.lead((BROKER, OTHER))
    counters.add("a", 2)
    counters.replicate()
    counters.add("a", 3)
    counters.change_options(loads_committed=True)
    counters.lead((BROKER, OTHER), epoch=2)
    counters.settle()
    # If this leader fails now, the next one does not have the second record.
    assert counters.refusal() is ErrorCode.coordinator_load_in_progress
    partition = counters.stage.partition(TOPIC)
    counters.stage.follower_fetches(OTHER, partition, partition.log.log_end_offset - 1)
    assert counters.coordinator.is_loading
    counters.replicate()
    assert counters.value() == 5
    # Without such a record it does not wait, and an interrupted wait leaves nothing behind.
    counters.lead((BROKER, OTHER), epoch=4)
    counters.settle()
    assert counters.value() == 5
    counters.add("a", 1)
    counters.lead((BROKER, OTHER), epoch=6)
    counters.settle()
    counters.lose(epoch=8)
    counters.lead((BROKER,), epoch=10)
    counters.settle()
    assert counters.value() == 6
    assert counters.made[-1] == (0, 10)


def test_loading_ends_when_a_follower_that_lacks_records_has_left_the_isr(
    counters: Counters,
) -> None:
    counters.change_options(loads_committed=True)
    counters.lead((BROKER, OTHER))
    counters.add("a", 2)
    counters.lead((BROKER, OTHER), epoch=2)
    counters.settle()
    assert counters.coordinator.is_loading
    alone = a_partition((BROKER, OTHER), isr=[BROKER], leader_epoch=2, partition_epoch=3)
    counters.stage.update(a_topic(TOPIC, alone))
    counters.stage.turn()
    assert counters.value() == 2


# -- transactions ----------------------------------------------------------------------------------


def end_transaction(counters: Counters, producer_id: int, kind: int) -> None:
    """The marker is in the partition."""
    log = counters.stage.partition(TOPIC).log
    batch = build_batch(
        [NewRecord(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, kind), 1_000)],
        base_offset=log.log_end_offset,
        leader_epoch=0,
        producer=ProducerIdentity(producer_id, 0, -1),
        is_control=True,
        is_transactional=True,
    )
    log.append_as_follower(memoryview(batch), counters.stage.clock.wall_ms())


@pytest.mark.parametrize(("kind", "expected"), [(0, 1), (1, 7)])
def test_a_value_of_a_transaction_counts_when_it_is_committed(
    counters: Counters, kind: int, expected: int
) -> None:
    counters.lead()
    counters.add("a", 1)
    assert counters.add("a", 6, producer_id=7, producer_epoch=0) == [NONE, NONE]
    assert counters.value() == 1
    counters.lead(epoch=2)
    counters.settle()
    assert counters.value() == 1
    end_transaction(counters, 7, kind)
    counters.lead(epoch=4)
    counters.settle()
    assert counters.value() == expected


# -- beside other coordinators ---------------------------------------------------------------------


def test_two_kinds_of_coordinators_run_on_one_broker(counters: Counters) -> None:
    stage = counters.stage
    stage.update(a_topic("t", a_partition([BROKER])))
    lead_offsets_topic(stage)
    counters.lead()
    assert committed_in(stage.connect().call(commit_offsets("g", {("t", 0): 1}))) == [NONE]
    assert counters.add() == [NONE]
    assert stage.core.groups.coordinator.partition_of("g") == TopicPartition(
        "__consumer_offsets", 0
    )
    assert counters.value() == 1
