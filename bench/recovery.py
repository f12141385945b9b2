"""Measures the recovery of logs after a crash, and what a broker of many partitions costs at rest.

    PYTHONPATH=. .venv/bin/python bench/recovery.py [--gigabytes 1] [--partitions 2000]
    [--segments 10000] [--directory DIR]

Recovery is compared with the checksum alone over the same files in the same run, since that is
what it cannot do without: the ratio says what batches, indexes and processes add. Memory is stated
as private bytes (`Private_Dirty` and `Private_Clean` of /proc/self/smaps_rollup): pages of mapped
files are the page cache's. A figure never fails a test: machines differ.
"""

import argparse
import gc
import mmap
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from crc32c import crc32c  # noqa: E402 - after the path is set

from cluster.brokers.replication.partition_table import PartitionTable  # noqa: E402
from cluster.brokers.storage.log_repairs import Extent, LogRepairs  # noqa: E402
from cluster.log.log_directory import LogDirectory  # noqa: E402
from cluster.log.options import LogOptions  # noqa: E402
from cluster.log.partition_log import PartitionLog  # noqa: E402
from cluster.log.recovery import LastStop, recover  # noqa: E402
from cluster.model.clocks import WallMs  # noqa: E402
from cluster.model.ids import BrokerId, LeaderEpoch, Offset, TopicPartition  # noqa: E402
from cluster.records.builder import NewRecord, build_batch  # noqa: E402
from cluster.records.produced import validate_produced  # noqa: E402
from cluster.runtime.clock import SystemClock  # noqa: E402
from cluster.runtime.helper_process import HelperProcess  # noqa: E402
from cluster.runtime.limits import raise_descriptor_limit  # noqa: E402
from cluster.runtime.loop import EventLoop  # noqa: E402

NOW_MS = WallMs(1_700_000_000_000)
OPTIONS = LogOptions(segment_bytes=256 << 20)
RECORD_BYTES = 1_000
BATCHES = {"16 KB": 16, "1 KB": 1, "100 KB": 100}
"""Records of 1,000 bytes in a batch."""


def open_log(home: Path, name: TopicPartition, options: LogOptions = OPTIONS) -> PartitionLog:
    return PartitionLog.open(
        home / str(name),
        name,
        options,
        NOW_MS,
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )


def fill(log: PartitionLog, size_bytes: int, records: int) -> int:
    """Append one batch again and again; the bytes they take."""
    batch = memoryview(build_batch([NewRecord(os.urandom(RECORD_BYTES), None, NOW_MS)] * records))
    written = 0
    while written < size_bytes:
        log.append(validate_produced(batch, log.limits, NOW_MS), LeaderEpoch(0), NOW_MS)
        written += len(batch)
    return written


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of this process's processor time."""
    began, began_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - began_cpu


def checksum_alone(directory: Path) -> None:
    for path in directory.glob("*/*.log"):
        if path.stat().st_size:
            with (
                path.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                crc32c(content)


def recover_all(home: Path) -> None:
    for directory in home.glob("*-*"):
        recover(directory, OPTIONS, LastStop(False, Offset(0), Offset(0)), NOW_MS)


def recover_by_helpers(home: Path, helpers: int) -> None:
    clock = SystemClock()
    loop = EventLoop(clock)
    directory = LogDirectory.open(home, "bench", 0)
    LogRepairs(
        OPTIONS, Extent(helpers), clock, lambda _: None, loop, partial(HelperProcess, loop)
    ).run([directory])
    directory.close()
    loop.close()


def measure_recovery(home: Path, gigabytes: float) -> None:
    partitions = 4
    for name, records in BATCHES.items():
        for number in range(partitions):
            log = open_log(home, TopicPartition("t", number))
            size = fill(log, int(gigabytes * 1e9 / partitions), records)
            log.close(flush=False)
            del log
        size *= partitions
        checksum_alone(home)  # warm
        alone, alone_cpu = timed(partial(checksum_alone, home))
        print(f"batches of {name}, {size / 1e9:.2f} GB in {partitions} logs, warm")
        print(f"  checksum alone   {size / 1e9 / alone:6.2f} GB/s")
        ways: dict[str, Callable[[], None]] = {
            "in this process": partial(recover_all, home),
            "one helper": partial(recover_by_helpers, home, 1),
            "two helpers": partial(recover_by_helpers, home, 2),
        }
        for way, work in ways.items():
            took, cpu = min(timed(work) for _ in range(3))
            print(
                f"  {way:<16} {size / 1e9 / took:6.2f} GB/s, {alone / took:4.0%} of it,"
                f" {cpu:.2f} s of this process's processor time (checksum alone {alone_cpu:.2f})"
            )
        shutil.rmtree(home)
        home.mkdir()


def private_bytes() -> int:
    """Memory that is this process's alone."""
    text = Path("/proc/self/smaps_rollup").read_text()
    rows = [line.split() for line in text.splitlines()]
    return sum(int(row[1]) << 10 for row in rows if row[0] in ("Private_Dirty:", "Private_Clean:"))


def open_things(home: Path) -> str:
    maps = Path("/proc/self/maps").read_text().count(str(home))
    descriptors = sum(
        os.path.realpath(path).startswith(str(home))
        for path in map(str, Path("/proc/self/fd").iterdir())
    )
    return f"{descriptors} descriptors, {maps} mappings"


def load(home: Path, options: LogOptions) -> tuple[PartitionTable, float, int]:
    """Open every log of a directory: the table, the seconds, the private bytes it added."""
    gc.collect()
    before = private_bytes()
    directory = LogDirectory.open(home, "bench", 0)
    table = PartitionTable([directory], BrokerId(0), lambda _overrides: (options, 1))
    took, _ = timed(lambda: table.load(NOW_MS))
    gc.collect()
    return table, took, private_bytes() - before


def measure_start(home: Path, partitions: int) -> None:
    for number in range(partitions):
        log = open_log(home, TopicPartition("t", number))
        fill(log, 20_000, 1)
        log.close(flush=False)
    (home / ".kafka_cleanshutdown").touch()
    for stop in ("a clean stop", "a kill"):
        table, took, memory = load(home, OPTIONS)
        print(
            f"{len(table)} partitions opened after {stop}: {took:.2f} s,"
            f" {memory / 1e6:.1f} MB private, {open_things(home)}"
        )
        for partition in table:
            part = partition.log.read(
                Offset(0),
                1 << 20,
                upper_offset=partition.log.log_end_offset,
                at_least_one_batch=True,
            )
            len(part.view())
        print(f"  and once each was read: {open_things(home)}")
        for directory in table.directories:
            directory.close()
        del table, partition, part
    shutil.rmtree(home)
    home.mkdir()


def measure_segments(home: Path, segments: int) -> None:
    small = replace(OPTIONS, segment_bytes=1_100, preallocate_step_bytes=4096)
    log = open_log(home, TopicPartition("t", 0), small)
    while len(log.segments) < segments:
        fill(log, 1_000, 1)
    print(f"{segments} segments written: {open_things(home)}")
    log.close(flush=False)
    del log
    (home / ".kafka_cleanshutdown").touch()
    table, took, memory = load(home, small)
    print(f"  opened in {took:.2f} s, {memory / 1e6:.1f} MB private, {open_things(home)}")
    (partition,) = table
    offset = Offset(0)

    def read_all() -> None:
        nonlocal offset
        while offset < partition.log.log_end_offset:
            part = partition.log.read(
                offset, 1 << 20, upper_offset=partition.log.log_end_offset, at_least_one_batch=True
            )
            len(part.view())
            offset = part.next_offset

    took, _ = timed(read_all)
    print(f"  read in {took:.2f} s: {open_things(home)}")
    for directory in table.directories:
        directory.close()


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--directory", type=Path, help="where the logs are made")
    chosen = parser.parse_args()
    raise_descriptor_limit()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
        home = Path(directory, "logs")
        home.mkdir()
        measure_recovery(home, chosen.gigabytes)
        measure_start(home, chosen.partitions)
        measure_segments(home, chosen.segments)


if __name__ == "__main__":
    main()
