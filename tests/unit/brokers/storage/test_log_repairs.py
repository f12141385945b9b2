"""Recovery by helpers: what they leave, what the broker says, and what it does without them."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.storage.log_repairs import REPORT_EVERY_MS, Extent, LoadingReports, LogRepairs
from cluster.log.log_directory import LogDirectory
from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.ids import BrokerId, Offset, TopicPartition
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime.clock import SystemClock
from cluster.runtime.helper_process import (
    HelperFailed,
    HelperPort,
    HelperProcess,
    HelperStarter,
    OnEnd,
    OnMessage,
)
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock
from tests.support.inline_helper import InlineHelper, inline_helpers
from tests.unit.log.log_builder import NOW_MS, a_batch, append, read_all

OPTIONS = LogOptions(segment_bytes=2000, index_interval_bytes=100, preallocate_step_bytes=8192)
ALL = Extent(helpers_per_directory=2, from_bytes=0, log_from_bytes=0)
NAMES = [TopicPartition("orders", number) for number in range(5)]

StartOf = Callable[[EventLoop], HelperStarter]


class Disk:
    """Log directories that a broker has left without a clean stop."""

    def __init__(self, home: Path, count: int = 1) -> None:
        self.paths = [home / f"disk{number}" for number in range(count)]
        self.directories: list[LogDirectory] = []
        self.reports: list[RecoveryProgress] = []

    def write(self, disk: int, name: TopicPartition, batches: int) -> Path:
        """A log as kill -9 leaves it."""
        log = PartitionLog.open(
            self.paths[disk] / str(name),
            name,
            OPTIONS,
            NOW_MS,
            clean_shutdown=True,
            recovery_point=Offset(0),
            log_start_offset=Offset(0),
        )
        for step in range(batches):
            append(log, a_batch(1, timestamp_ms=NOW_MS + step), step // 10)
        return log.directory

    def repair(self, start_of: StartOf, extent: Extent = ALL) -> None:
        self.directories = [LogDirectory.open(path, "c", 1) for path in self.paths]
        clock = SystemClock()
        loop = EventLoop(clock)
        repairs = LogRepairs(OPTIONS, extent, clock, self.reports.append, loop, start_of(loop))
        repairs.run(self.directories)
        assert loop.watched_count == 0
        loop.close()

    def load(self) -> PartitionTable:
        table = PartitionTable(self.directories, BrokerId(1), lambda overrides: (OPTIONS, 1))
        table.load(NOW_MS)
        return table

    def close(self) -> None:
        for directory in self.directories:
            directory.close()


def inline(loop: EventLoop) -> HelperStarter:
    return inline_helpers(loop.next_turn)


def processes(loop: EventLoop) -> HelperStarter:
    return partial(HelperProcess, loop)


def never(_loop: EventLoop) -> HelperStarter:
    return lambda module, on_message, on_end: pytest.fail("no helper is needed")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path, count=2)
    yield made
    made.close()


def ends(table: PartitionTable) -> dict[TopicPartition, int]:
    return {partition.id: partition.log.log_end_offset for partition in table}


@pytest.mark.slow
def test_helper_processes_leave_what_a_clean_stop_leaves_and_their_lines_are_the_brokers(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    for number, name in enumerate(NAMES):
        disk.write(number % 2, name, batches=60)
    damaged = sorted((disk.paths[0] / str(NAMES[0])).glob("*.log"))[1]
    content = bytearray(damaged.read_bytes())
    content[70] ^= 1
    damaged.write_bytes(content)

    with caplog.at_level(logging.INFO):
        disk.repair(processes)
    assert [one.repaired for one in disk.directories] == [set(NAMES[0::2]), set(NAMES[1::2])]
    lines = [
        record.message for record in caplog.records if "checksum does not match" in record.message
    ]
    assert len(lines) == 1
    assert lines[0].startswith(f"{damaged} cut from ")

    caplog.clear()
    table = disk.load()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    cut_at = int(damaged.stem)
    assert ends(table) == {name: 60 if name != NAMES[0] else cut_at for name in NAMES}
    for partition in table:
        assert len(read_all(partition.log)) == partition.log.log_end_offset
        assert partition.log.epochs.latest == (partition.log.log_end_offset - 1) // 10
        assert partition.log.durability.recovery_point == 0, "repaired is not synced"
    table.close()
    assert [one.read_recovery_points() for one in disk.directories] == [
        {name: end for name, end in ends(table).items() if name in NAMES[0::2]},
        {name: end for name, end in ends(table).items() if name in NAMES[1::2]},
    ]


def test_after_a_clean_stop_nobody_is_asked(disk: Disk) -> None:
    disk.write(0, NAMES[0], batches=20)
    disk.repair(inline)
    disk.load().close()
    disk.repair(never)
    assert ends(disk.load()) == {NAMES[0]: 20}


def test_a_little_is_recovered_by_the_broker_itself(disk: Disk) -> None:
    disk.write(0, NAMES[0], batches=20)
    disk.repair(never, Extent(2))
    assert ends(disk.load()) == {NAMES[0]: 20}


def test_small_logs_beside_a_large_one_are_left_to_the_broker(disk: Disk) -> None:
    disk.write(0, NAMES[0], batches=2)
    disk.write(0, NAMES[1], batches=200)
    disk.repair(inline, Extent(2, from_bytes=0, log_from_bytes=10_000))
    assert disk.directories[0].repaired == {NAMES[1]}
    assert ends(disk.load()) == {NAMES[0]: 2, NAMES[1]: 200}


def test_only_what_lies_beyond_the_recovery_point_is_checked(disk: Disk) -> None:
    directory = disk.write(0, NAMES[0], batches=100)
    disk.write(1, NAMES[1], batches=1)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    disk.repair(inline)
    disk.load().close()
    (disk.paths[0] / ".kafka_cleanshutdown").unlink()
    disk.directories[0].write_recovery_points({NAMES[0]: Offset(bases[1] + 1)})
    for base in bases[:2]:
        path = directory / f"{base:020d}.log"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    disk.repair(inline)
    assert ends(disk.load())[NAMES[0]] == bases[2] - 1


def test_a_log_that_cannot_be_recovered_is_alone_in_that(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.write(0, NAMES[0], batches=20)
    directory = disk.write(0, NAMES[1], batches=20)
    in_the_way = directory / f"{0:020d}.log"
    in_the_way.unlink()
    in_the_way.mkdir()
    disk.repair(inline)

    table = disk.load()

    assert ends(table) == {NAMES[0]: 20}
    offline = table.offline.find(NAMES[1])
    assert offline is not None
    assert str(in_the_way) in offline.reason
    lines = [record for record in caplog.records if "orders-1" in record.getMessage()]
    assert len([record for record in lines if record.levelno == logging.ERROR]) == 1
    assert in_the_way.is_dir(), "left as it is"


def test_failed_log_keeps_its_checkpoints_and_is_checked_again(disk: Disk) -> None:
    disk.write(0, NAMES[0], batches=20)
    directory = disk.write(0, NAMES[1], batches=20)
    disk.repair(inline)
    table = disk.load()
    found = table.find(NAMES[1])
    assert found is not None
    found.log.advance_log_start_offset(Offset(5))
    table.close()
    disk.close()
    broken = directory / f"{0:020d}.log"
    content = broken.read_bytes()
    broken.unlink()
    broken.mkdir()

    disk.repair(inline)
    disk.load().close()
    disk.close()
    broken.rmdir()
    broken.write_bytes(content)
    disk.repair(inline)

    again = disk.load().find(NAMES[1])
    assert again is not None
    assert (again.log.log_start_offset, again.log.log_end_offset) == (5, 20)
    assert not disk.directories[0].was_clean_shutdown


def test_when_a_helper_is_killed_the_broker_goes_on_by_itself(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    for name in NAMES:
        disk.write(0, name, batches=20)

    def doomed(loop: EventLoop) -> HelperStarter:
        def start(module: str, on_message: OnMessage, on_end: OnEnd) -> HelperPort:
            helper = HelperProcess(loop, module, on_message, on_end)
            os.kill(helper.pid, signal.SIGKILL)
            return helper

        return start

    disk.repair(doomed)
    assert "ended by signal 9" in caplog.text
    assert disk.directories[0].repaired == set()
    assert ends(disk.load()) == dict.fromkeys(NAMES, 20)


def test_without_helpers_the_broker_does_it_all(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.write(0, NAMES[0], batches=20)

    def none(_loop: EventLoop) -> HelperStarter:
        def refuse(module: str, on_message: OnMessage, on_end: OnEnd) -> HelperPort:
            raise HelperFailed("no more processes")

        return refuse

    disk.repair(none)
    assert "no helper for the recovery: no more processes" in caplog.text
    assert ends(disk.load()) == {NAMES[0]: 20}


def test_progress_counts_what_is_done_and_what_is_under_way() -> None:
    text = RecoveryProgress(3_200_000_000, 10_000_000_000, 120, 300).text
    assert text == "recovering logs, 3.2 of 10.0 GB, 120 of 300 partitions"
    assert RecoveryProgress(0, 0, 5, 9).text == "loading logs, 5 of 9 partitions"
    assert "1.0 of 20.0 MB" in RecoveryProgress(1_000_000, 20_000_000, 0, 1).text
    one = RecoveryProgress(1, 2, 3, 4)
    assert RecoveryProgress.from_json(one.to_json()) == one


def test_progress_is_reported_while_helpers_work(disk: Disk) -> None:
    for name in NAMES:
        disk.write(0, name, batches=20)
    clock = FakeClock()
    sizes = [
        sum(path.stat().st_size for path in (disk.paths[0] / str(name)).glob("*.log"))
        for name in NAMES
    ]
    disk.directories = [LogDirectory.open(path, "c", 1) for path in disk.paths]
    loop = EventLoop(clock)

    def start(module: str, on_message: OnMessage, on_end: OnEnd) -> HelperPort:
        def heard(message: object) -> None:
            clock.pass_time(REPORT_EVERY_MS)
            on_message(message)  # type: ignore[arg-type]  # passed on as it comes

        return InlineHelper(loop.next_turn, module, heard, on_end)

    LogRepairs(OPTIONS, ALL, clock, disk.reports.append, loop, start).run(disk.directories)
    loop.close()

    assert disk.reports
    assert all(report.bytes_total == sum(sizes) for report in disk.reports)
    done = [report.partitions_done for report in disk.reports]
    assert done == sorted(done)
    assert all(0 <= report.bytes_done <= report.bytes_total for report in disk.reports)


def test_opening_many_logs_is_reported_at_a_bounded_rate() -> None:
    clock = FakeClock()
    reports: list[RecoveryProgress] = []
    loading = LoadingReports(clock, reports.append)
    for opened in range(1, 101):
        clock.pass_time(100)
        loading.on_opened(opened, 100)
    assert [report.partitions_done for report in reports] == [21, 41, 61, 81]
