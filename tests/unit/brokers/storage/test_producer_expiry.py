"""Idle producers of real logs, forgotten by a running broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.storage.producer_expiry import ProducerExpiry
from cluster.config.broker import PRODUCER_ID_EXPIRATION_MS
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.runtime.slices import Slices
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, HandlerStage

ALONE = a_partition([BROKER])


class Expiring:
    """Topics `a` and `b` with one partition each, and a search in steps of one log."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        self.slices = Slices(stage.clock.monotonic_us, stage.loop.next_turn, budget_us=0)
        self.expiry = ProducerExpiry(stage.table, self.slices, stage.clock.wall_ms)
        stage.update(a_topic("a", ALONE))
        stage.update(a_topic("b", ALONE))

    def append(self, topic: str, producer_id: int) -> None:
        wall_ms = self.stage.clock.wall_ms()
        record = NewRecord(b"x", None, wall_ms)
        batch = build_batch([record], producer=ProducerIdentity(producer_id, 0, 0))
        self.stage.partition(topic).append(memoryview(batch), 1, wall_ms, self.stage.loop.now_ms)

    def check(self) -> None:
        self.expiry.on_tick()
        while not self.slices.is_idle:
            self.stage.turn()

    def producers(self, topic: str) -> list[int]:
        return list(self.stage.partition(topic).log.producers.entries)


@pytest.fixture
def expiring(tmp_path: Path) -> Iterator[Expiring]:
    with HandlerStage(tmp_path) as stage:
        yield Expiring(stage)


def test_idle_producers_of_every_log_are_forgotten_while_the_broker_runs(
    expiring: Expiring,
) -> None:
    expiring.append("a", 1)
    expiring.append("b", 1)
    clock = expiring.stage.clock
    clock.pass_time(expiring.stage.settings[PRODUCER_ID_EXPIRATION_MS] - 1)
    expiring.append("b", 2)
    expiring.check()
    assert (expiring.producers("a"), expiring.producers("b")) == ([1], [1, 2])
    clock.pass_time(1)
    expiring.check()
    assert (expiring.producers("a"), expiring.producers("b")) == ([], [2])


def test_search_goes_on_when_a_topic_is_deleted_meanwhile(expiring: Expiring) -> None:
    expiring.append("b", 1)
    expiring.stage.clock.pass_time(expiring.stage.settings[PRODUCER_ID_EXPIRATION_MS])
    expiring.expiry.on_tick()
    expiring.stage.update(deleted=("a",))
    expiring.check()
    expiring.check()
    assert expiring.producers("b") == []


def test_running_broker_looks_for_idle_producers(expiring: Expiring) -> None:
    stage = expiring.stage
    stage.core.maintenance.start_retention()
    expiring.append("a", 1)
    stage.clock.pass_time(stage.settings[PRODUCER_ID_EXPIRATION_MS])
    expiring.append("a", 2)
    stage.turn()
    stage.turn()
    assert expiring.producers("a") == [2]
