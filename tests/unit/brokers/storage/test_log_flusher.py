"""The flusher over real logs: what is due is synced once, and a disk that fails is asked again."""

import queue
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.brokers.storage.log_flusher import LogFlusher
from cluster.model.clocks import MonotonicMs
from cluster.runtime.background_thread import BackgroundThread
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, a_batch
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.turning import DEADLINE_S

ALONE = a_partition([BROKER])
AT_EVERY_CHECK = {"flush.ms": "0"}

BEGIN = MonotonicMs(1_000)


class Flushing:
    """A flusher on the replicas of a stage; what its thread posts waits for a test."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.thread = BackgroundThread("log-flusher")
        self.flusher = LogFlusher(
            stage.table, stage.slices, self.thread.do, self._posted.put, lambda: 7
        )

    def append(self, partition: int = 0) -> None:
        self.stage.partition("t", partition).append(memoryview(a_batch()), 1, WALL_MS, BEGIN)

    def take_result(self) -> None:
        """What the thread has to say next, on the broker's thread."""
        self._posted.get(timeout=DEADLINE_S)()

    def has_result(self) -> bool:
        return not self._posted.empty()


@pytest.fixture
def flushing(tmp_path: Path) -> Iterator[Flushing]:
    with HandlerStage(tmp_path) as stage:
        stage.update(a_topic("t", ALONE, ALONE, configs=AT_EVERY_CHECK))
        made = Flushing(stage)
        yield made
        made.thread.close()


def test_flusher_syncs_logs_that_are_due(flushing: Flushing) -> None:
    flushing.append(0)
    flushing.append(0)

    flushing.flusher.on_tick(BEGIN)
    flushing.take_result()

    assert flushing.stage.partition("t", 0).log.durability.recovery_point == 2
    assert flushing.stage.partition("t", 1).log.durability.recovery_point == 0
    flushing.flusher.on_tick(BEGIN)
    assert not flushing.has_result()


def test_one_sync_of_a_partition_at_a_time(flushing: Flushing) -> None:
    flushing.append()
    flushing.flusher.on_tick(BEGIN)
    flushing.append()
    flushing.flusher.on_tick(BEGIN)

    flushing.take_result()
    assert flushing.stage.partition("t").log.durability.recovery_point == 1
    flushing.thread.close()
    assert not flushing.has_result()


def test_a_close_finishes_what_is_under_way(flushing: Flushing) -> None:
    flushing.append(0)
    flushing.append(1)
    flushing.flusher.on_tick(BEGIN)

    flushing.thread.close()
    flushing.take_result()
    flushing.take_result()

    assert [flushing.stage.partition("t", n).log.durability.recovery_point for n in (0, 1)] == [
        1,
        1,
    ]


def test_a_partition_that_is_deleted_meanwhile(flushing: Flushing) -> None:
    flushing.append()
    flushing.flusher.on_tick(BEGIN)
    flushing.stage.update(deleted=("t",))
    flushing.take_result()

    flushing.stage.update(a_topic("t", ALONE, configs=AT_EVERY_CHECK))
    flushing.append()
    flushing.flusher.on_tick(BEGIN)
    flushing.take_result()

    assert flushing.stage.partition("t").log.durability.recovery_point == 1


def test_a_log_that_is_cut_and_written_anew_during_a_sync(flushing: Flushing) -> None:
    """What came after the cut is not what was synced."""
    for _ in range(3):
        flushing.append()
    partition = flushing.stage.partition("t")
    target = partition.log.flush_target()
    target.sync()
    partition.truncate_to(partition.log.log_start_offset)
    for _ in range(5):
        flushing.append()

    partition.log.durability.on_synced(target)

    assert partition.log.durability.recovery_point == 0
    partition.log.flush()
    assert partition.log.durability.recovery_point == 5


def test_a_sync_that_failed_is_due_again(tmp_path: Path) -> None:
    with HandlerStage(tmp_path) as stage:
        stage.update(a_topic("t", ALONE, ALONE, configs={"flush.ms": "50"}))
        flushing = Flushing(stage)
        flushing.append()
        log = stage.partition("t").log
        epochs = log.epochs.path.read_bytes()
        log.epochs.path.unlink()
        log.epochs.path.symlink_to(log.epochs.path.name)  # so that it cannot be opened

        flushing.flusher.on_tick(BEGIN)
        assert not flushing.has_result()
        flushing.flusher.on_tick(MonotonicMs(BEGIN + 50))
        flushing.take_result()
        assert log.durability.recovery_point == 0

        log.epochs.path.unlink()
        log.epochs.path.write_bytes(epochs)
        flushing.flusher.on_tick(MonotonicMs(BEGIN + 100))
        flushing.take_result()
        assert log.durability.recovery_point == 1
        flushing.thread.close()


@pytest.mark.parametrize("lost", ["log", "directory"])
def test_a_disk_that_fails_costs_its_partition_only(tmp_path: Path, lost: str) -> None:
    topic = a_topic("t", ALONE, ALONE, configs=AT_EVERY_CHECK | {"segment.bytes": "200"})
    with HandlerStage(tmp_path) as before:
        before.update(topic)
        for number in (0, 1):
            for _ in range(5):
                before.partition("t", number).append(memoryview(a_batch()), 1, WALL_MS, BEGIN)
        # Recovery points stay at 0: every segment is due for a sync after the next start.
        before.table.write_checkpoints()
        for partition in before.table:
            partition.log.close(flush=False)
        before.directory.mark_clean_shutdown()

    with HandlerStage(tmp_path) as stage:
        stage.update(topic)
        flushing = Flushing(stage)
        log = stage.partition("t", 0).log
        if lost == "log":
            log.segments[0].file.path.unlink()
        else:
            shutil.rmtree(log.directory)

        flushing.flusher.on_tick(BEGIN)
        flushing.take_result()
        flushing.flusher.on_tick(BEGIN)
        flushing.thread.close()

        assert log.durability.recovery_point == 0
        assert stage.partition("t", 1).log.durability.recovery_point == 5
