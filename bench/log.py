"""What appending to a partition's log costs beside plain writes, by batch size and file system.

    PYTHONPATH=. .venv/bin/python bench/log.py [--directories /dev/shm,/tmp] [--sizes 1024,16384]
        [--megabytes 256] [--rounds 5] [--record-bytes 100] [--ways leader] [--root OTHER_TREE]

Each figure is GB per second of one processor, the best of some rounds in turns: `write` writes the
batches into a new file, nothing else; `leader` is what a leader does: `validate_produced`,
which checks checksum and records, and `PartitionLog.append`, which stamps offset and epoch;
`follower` takes the same batches by `append_as_follower`.
The other rows are ways to append that were tried: see docs/decisions/004. A batch is one record,
unless `--record-bytes` divides it. With `--root` the log is that of another source tree, measured
with this same script.
"""

import argparse
import mmap
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

if TYPE_CHECKING:
    from cluster.log.partition_log import PartitionLog
    from cluster.model.clocks import WallMs

STEP_BYTES: Final = 16 << 20
FIRST_STEP_BYTES: Final = 256 << 10
HEAD: Final = bytes(16)
CRC_FROM: Final = 21

Way = Callable[[Path, list[memoryview], int], float]
"""Appends that many batches below a directory; returns the seconds of processor time it took."""


def main() -> None:
    """Print a table for each directory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directories", default=f"{tempfile.gettempdir()},/dev/shm")
    parser.add_argument("--sizes", default="1024,4096,16384,65536,1000000", help="of a batch")
    parser.add_argument("--megabytes", type=int, default=256, help="appended by each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record-bytes", type=int, default=0, help="default: one record")
    parser.add_argument("--vary", action="store_true", help="records of half to 1.5 times as much")
    parser.add_argument("--ways", default=",".join(WAYS), help="the rows")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    sys.path.insert(0, str(options.root))
    sizes = [int(size) for size in options.sizes.split(",")]
    ways = options.ways.split(",")
    for directory in options.directories.split(","):
        print(f"\n{directory}: GB per second of processor time")
        print(f"{'bytes of a batch':34}" + "".join(f"{size:>11,}" for size in sizes))
        figures = {
            size: measure(
                Path(directory),
                make_batches(size, options.record_bytes or size, varies=options.vary),
                options.megabytes << 20,
                options.rounds,
                ways,
            )
            for size in sizes
        }
        for name in ways:
            print(f"{name:34}" + "".join(f"{figures[size][name]:>11.2f}" for size in sizes))


def measure(
    directory: Path, batches: list[memoryview], total_bytes: int, rounds: int, ways: list[str]
) -> dict[str, float]:
    """GB per second of each way, in turns."""
    count = total_bytes // len(batches[0])
    best = dict.fromkeys(ways, 0.0)
    for _ in range(rounds):
        for name in ways:
            with tempfile.TemporaryDirectory(dir=directory) as place:
                seconds = WAYS[name](Path(place), batches, count)
            best[name] = max(best[name], count * len(batches[0]) / seconds / 1e9)
    return best


def make_batches(size: int, record_bytes: int, *, varies: bool = False) -> list[memoryview]:
    """Batches of random bytes as a producer sends them, 1 MiB of them and at least one."""
    from cluster.records.builder import NewRecord, build_batch

    count = max(1, (1 << 20) // size)
    now_ms = time.time_ns() // 1_000_000
    dice = random.Random(1)

    def one() -> NewRecord:
        value_bytes = size - 75 if record_bytes == size else record_bytes - 10
        if varies:
            value_bytes = dice.randrange(value_bytes // 2, value_bytes * 3 // 2)
        return NewRecord(os.urandom(value_bytes), timestamp_ms=now_ms)

    each = max(1, (size - 61) // record_bytes)
    return [memoryview(build_batch([one() for _ in range(each)])) for _ in range(count)]


def steps(descriptor: int, batches: list[memoryview], count: int) -> Iterator[tuple[int, int]]:
    """The position of each batch, and how much is allocated by then, as a segment grows."""
    position = capacity = 0
    for number in range(count):
        end = position + len(batches[number % len(batches)])
        if end > capacity:
            step = max(min(max(capacity, FIRST_STEP_BYTES), STEP_BYTES), end - capacity)
            os.posix_fallocate(descriptor, capacity, step)
            capacity += step
        yield position, capacity
        position = end


def plain_write(place: Path, batches: list[memoryview], count: int) -> float:
    """`write` into a new file: what the machine does at all."""
    descriptor = new_file(place)
    began = time.thread_time()
    for number in range(count):
        os.write(descriptor, batches[number % len(batches)])
    return end_of(descriptor, began)


def checked_write(place: Path, batches: list[memoryview], count: int) -> float:
    """The same with the checksum."""
    descriptor = new_file(place)
    began = time.thread_time()
    for number in range(count):
        batch = batches[number % len(batches)]
        crc32c(batch[CRC_FROM:])
        os.write(descriptor, batch)
    return end_of(descriptor, began)


def through_mapping(place: Path, batches: list[memoryview], count: int) -> float:
    """Checksum, and a copy into a mapping of allocated blocks."""
    descriptor = new_file(place)
    began = time.thread_time()
    mapping, mapped = None, 0
    for number, (position, capacity) in enumerate(steps(descriptor, batches, count)):
        batch = batches[number % len(batches)]
        crc32c(batch[CRC_FROM:])
        if mapping is None or capacity > mapped:
            mapping, mapped = mmap.mmap(descriptor, capacity), capacity
        mapping[position : position + len(batch)] = batch
        mapping[position : position + len(HEAD)] = HEAD
    return end_of(descriptor, began)


def into_allocated(place: Path, batches: list[memoryview], count: int) -> float:
    """Checksum, and `pwritev` into allocated blocks, mapped for reads."""
    descriptor = new_file(place)
    began = time.thread_time()
    mapped = 0
    for number, (position, capacity) in enumerate(steps(descriptor, batches, count)):
        batch = batches[number % len(batches)]
        crc32c(batch[CRC_FROM:])
        if capacity > mapped:
            mmap.mmap(descriptor, capacity, access=mmap.ACCESS_READ)
            mapped = capacity
        os.pwritev(descriptor, (HEAD, batch[len(HEAD) :]), position)
    return end_of(descriptor, began)


def into_a_hole(place: Path, batches: list[memoryview], count: int) -> float:
    """Checksum, and `pwritev` into a sparse file, mapped for reads."""
    descriptor = new_file(place)
    began = time.thread_time()
    position = mapped = 0
    for number in range(count):
        batch = batches[number % len(batches)]
        crc32c(batch[CRC_FROM:])
        if position + len(batch) > mapped:
            mapped += max(STEP_BYTES, len(batch))
            os.ftruncate(descriptor, mapped)
            mmap.mmap(descriptor, mapped, access=mmap.ACCESS_READ)
        position += os.pwritev(descriptor, (HEAD, batch[len(HEAD) :]), position)
    return end_of(descriptor, began)


def recycled(place: Path, batches: list[memoryview], count: int) -> float:
    """Checksum, and a copy into a mapping of a file that was written before and is cached."""
    descriptor = new_file(place)
    size = sum(len(batches[number % len(batches)]) for number in range(count))
    zeros = bytes(1 << 20)
    while size > 0:
        size -= os.write(descriptor, zeros)
    mapping = mmap.mmap(descriptor, 0)
    began = time.thread_time()
    position = 0
    for number in range(count):
        batch = batches[number % len(batches)]
        crc32c(batch[CRC_FROM:])
        end = position + len(batch)
        mapping[position:end] = batch
        mapping[position : position + len(HEAD)] = HEAD
        position = end
    return end_of(descriptor, began)


def open_log(place: Path) -> "tuple[PartitionLog, WallMs]":
    """An empty log, and the time of its appends."""
    from cluster.log.options import LogOptions
    from cluster.log.partition_log import PartitionLog
    from cluster.model.clocks import WallMs
    from cluster.model.ids import Offset, TopicPartition

    wall_ms = WallMs(time.time_ns() // 1_000_000)
    log = PartitionLog.open(
        place / "t-0",
        TopicPartition("t", 0),
        LogOptions(),
        wall_ms,
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )
    return log, wall_ms


def leader(place: Path, batches: list[memoryview], count: int) -> float:
    """The log as a leader uses it."""
    from cluster.model.ids import LeaderEpoch
    from cluster.records.produced import validate_produced

    log, wall_ms = open_log(place)
    began = time.thread_time()
    for number in range(count):
        batch = batches[number % len(batches)]
        log.append(validate_produced(batch, log.limits, wall_ms), LeaderEpoch(0), wall_ms)
    return time.thread_time() - began


def follower(place: Path, batches: list[memoryview], count: int) -> float:
    """The log as a follower uses it, with up to 1 MiB at a time."""
    log, wall_ms = open_log(place)
    together = max(1, (1 << 20) // len(batches[0]))
    run = bytearray().join(batches[number % len(batches)] for number in range(together))
    size = len(batches[0])
    seconds = 0.0
    for first in range(0, count, together):
        for number in range(together):  # offsets lie outside the checksum
            run[number * size : number * size + 8] = (first + number).to_bytes(8, "big")
            run[number * size + 12 : number * size + 16] = bytes(4)
        began = time.thread_time()
        log.append_as_follower(memoryview(run), wall_ms)
        seconds += time.thread_time() - began
    return seconds


def new_file(place: Path) -> int:
    """A file to append to."""
    return os.open(place / "file", os.O_RDWR | os.O_CREAT)


def end_of(descriptor: int, began: float) -> float:
    """Processor time since then; closes the file."""
    seconds = time.thread_time() - began
    os.close(descriptor)
    return seconds


WAYS: Final[dict[str, Way]] = {
    "write": plain_write,
    "write, checksum": checked_write,
    "mapping of allocated blocks": through_mapping,
    "pwritev into allocated blocks": into_allocated,
    "pwritev into a sparse file": into_a_hole,
    "mapping of a recycled file": recycled,
    "leader": leader,
    "follower": follower,
}

if __name__ == "__main__":
    main()
