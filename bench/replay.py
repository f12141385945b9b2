"""Measures how long a log takes to learn its producers from its batches.

    PYTHONPATH=. .venv/bin/python bench/replay.py [--batches 2000000] [--directory DIR] [KIND ...]

For each kind of batches, a log of one segment of small batches is opened as after a kill, and then
truncated by 10 and by 1,000 batches. Seconds are those of this process's processor time: `open`
includes the check of all batches, `replay` is the part for the producers. A figure never fails a
test: machines differ.
"""

import argparse
import shutil
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from crc32c import crc32c  # noqa: E402 - after the path is set

from cluster.log import recovery  # noqa: E402
from cluster.log.options import LogOptions  # noqa: E402
from cluster.log.partition_log import PartitionLog  # noqa: E402
from cluster.model.clocks import WallMs  # noqa: E402
from cluster.model.ids import Offset, TopicPartition  # noqa: E402
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch  # noqa: E402
from cluster.records.markers import EndMarker, build_marker  # noqa: E402
from cluster.records.walk import IS_COMPILED  # noqa: E402

NOW_MS = WallMs(1_700_000_000_000)
PARTITION = TopicPartition("t", 0)
BUFFER_BYTES = 1 << 22
PRODUCERS_AT_ONCE = 20

Step = tuple[bytearray, int]
"""A batch to write and its producer, or -1."""

numbered = bytearray(build_batch([NewRecord(bytes(10), None, NOW_MS)]))
in_transaction = bytearray(
    build_batch(
        [NewRecord(bytes(10), None, NOW_MS)],
        producer=ProducerIdentity(0, 0, 0),
        is_transactional=True,
    )
)
markers = {
    commits: bytearray(build_marker(EndMarker(0, 0, 0, commits), NOW_MS))
    for commits in (True, False)
}


def of_producers(count: int, producers: int) -> Iterator[Step]:
    """Producers that take turns; without any, batches without a producer."""
    for number in range(count):
        yield numbered, number % producers if producers else -1


def in_transactions(count: int, batches: int) -> Iterator[Step]:
    """Transactions of so many batches and a marker, some at the same time. A fifth is aborted."""
    for number in range(count):
        turn, producer = divmod(number, PRODUCERS_AT_ONCE)
        transaction, place = divmod(turn, batches + 1)
        yield (markers[transaction % 5 > 0] if place == batches else in_transaction), producer


KINDS: dict[str, Callable[[int], Iterator[Step]]] = {
    "no producer": lambda count: of_producers(count, 0),
    "1 producer": lambda count: of_producers(count, 1),
    "100 producers": lambda count: of_producers(count, 100),
    "100,000 producers": lambda count: of_producers(count, 100_000),
    "transactions of 9 batches": lambda count: in_transactions(count, 9),
    "transactions of 1 batch": lambda count: in_transactions(count, 1),
}


def write_segment(directory: Path, steps: Iterator[Step]) -> None:
    directory.mkdir()
    sequences: Counter[int] = Counter()
    content = bytearray()
    with (directory / f"{0:020d}.log").open("wb") as file:
        for offset, (batch, producer) in enumerate(steps):
            struct.pack_into(">q", batch, 0, offset)
            struct.pack_into(">q", batch, 43, producer)
            is_data = batch is numbered or batch is in_transaction
            if is_data and producer >= 0:
                struct.pack_into(">hi", batch, 51, 0, sequences[producer])
                sequences[producer] += 1
            struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
            content += batch
            if len(content) > BUFFER_BYTES:
                file.write(content)
                content.clear()
        file.write(content)


class Timed:
    """A function that notes how long its last call took."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, *arguments: object) -> Any:
        began = time.process_time()
        try:
            return self._function(*arguments)
        finally:
            self.seconds = time.process_time() - began


def measure(directory: Path) -> list[float]:
    load = recovery.load_producers
    recovery.load_producers = opening = Timed(load)  # type: ignore[assignment]
    try:
        began = time.process_time()
        log = PartitionLog.open(
            directory,
            PARTITION,
            LogOptions(),
            NOW_MS,
            clean_shutdown=False,
            recovery_point=Offset(0),
            log_start_offset=Offset(0),
        )
        found = [time.process_time() - began, opening.seconds]
        for batches in (10, 1000):
            began = time.process_time()
            log.truncate_to(Offset(log.log_end_offset - batches))
            found.append(time.process_time() - began)
        return found
    finally:
        recovery.load_producers = load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--batches", type=int, default=2_000_000)
    parser.add_argument("--directory", type=Path, help="where to write; a temporary one if omitted")
    options = parser.parse_args()
    print(f"{options.batches} batches, the walk is {'C' if IS_COMPILED else 'Python'}")
    print(f"{'':<27}{'open':>8}{'replay':>8}{'cut 10':>8}{'cut 1,000':>11}   seconds")
    for kind in options.kinds or KINDS:
        home = Path(tempfile.mkdtemp(dir=options.directory))
        try:
            write_segment(home / str(PARTITION), KINDS[kind](options.batches))
            whole, replay, few, many = measure(home / str(PARTITION))
        finally:
            shutil.rmtree(home)
        print(f"{kind:<27}{whole:>8.2f}{replay:>8.3f}{few:>8.3f}{many:>11.3f}", flush=True)


if __name__ == "__main__":
    main()
