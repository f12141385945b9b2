"""A scrub holds on to nothing that is deleted while it waits for the disk."""

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.brokers.storage.log_scrubber import LogScrubber
from cluster.config.live_settings import LiveSettings
from cluster.model.ids import TopicPartition
from tests.unit.brokers.replication.test_partition_table import Disk, create

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.crash()


def test_partitions_that_are_deleted_during_a_scrub_are_let_go_of(disk: Disk) -> None:
    table = disk.open()
    create(table, T0, records=1)
    create(table, T1, records=1)
    reads: deque[Callable[[], None]] = deque()
    time = [0]
    ignored: Any = SimpleNamespace(start=lambda _steps: None)
    clock: Any = lambda: time[0]  # noqa: E731 - milliseconds
    scrubber = LogScrubber(
        LiveSettings(disk.settings),
        table,
        ignored,
        reads.append,
        lambda call: call(),
        lambda _delay_ms, call: reads.append(call),
        clock,
    )
    scrubber.on_tick()
    time[0] = 3_600_000
    scrubber.on_tick()
    assert len(reads) == 1  # of the first partition; the other one waits
    logs = {
        name: weakref.ref(partition.log) for name in (T0, T1) if (partition := table.find(name))
    }
    del partition
    table.delete(T1)
    assert logs[T1]() is None
    table.delete(T0)
    while reads:
        reads.popleft()()
    assert logs[T0]() is None
    assert scrubber.counts.damaged == 0
