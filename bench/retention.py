"""Retention of many segments, and how long the loop is busy with it: `python -m bench.retention`.

One log of closed segments, all too old: the broker's parts delete them, with their threads, while a
probe on the same loop measures how long each turn takes. Beside it: the longest turn of the same
loop with nothing to delete.
"""

import argparse
import gc
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.storage.log_retention import LogRetention
from cluster.log.directory_work import DirectoryWork
from cluster.log.log_directory import LogDirectory
from cluster.log.options import LogOptions
from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import PartitionState
from cluster.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from cluster.records.builder import NewRecord, build_batch
from cluster.runtime.background_thread import BackgroundThread
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices

BROKER = BrokerId(1)
STATE = PartitionState((BROKER,), (BROKER,), BROKER, LeaderEpoch(0), PartitionEpoch(0))
SEGMENT_BYTES = 1_200
QUIET_S = 2.0


def main() -> None:
    """Print the longest turns of the loop, and how long all of it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--directory", type=Path, help="where the log is made (default: /tmp)")
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as in a broker's process
    root = Path(tempfile.mkdtemp(dir=args.directory))
    try:
        _run(root, args.segments)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(root: Path, count: int) -> None:
    clock = SystemClock()
    loop = EventLoop(clock)
    slices = Slices(clock.monotonic_us, loop.next_turn)
    maker, remover = (BackgroundThread(name, 0.2) for name in ("log-maker", "log-remover"))

    def later(delay_ms: int, call: Callable[[], None]) -> None:
        loop.call_from_thread(lambda: loop.call_after(delay_ms, call) and None)

    options = LogOptions(
        segment_bytes=SEGMENT_BYTES,
        preallocate_step_bytes=4096,
        retention_ms=1_000,
        file_delete_delay_ms=1_000,
    )
    table = PartitionTable(
        [LogDirectory.open(root / "log", "bench", BROKER)],
        BROKER,
        lambda _: (options, 1),
        DirectoryWork(maker.do, remover.do, later),
    )
    partition = table.find_or_create(TopicPartition("t", 0), uuid.UUID(int=1), {}, clock.wall_ms())
    partition.become(STATE, MonotonicMs(0))
    batch = memoryview(build_batch([NewRecord(bytes(1000), None, 1_000)]))
    began = time.perf_counter()
    for _ in range(count + 1):
        partition.append(batch, 1, clock.wall_ms(), loop.now_ms)
    print(f"{count} segments made in {time.perf_counter() - began:.1f} s")
    gc.collect()
    gc.freeze()  # as a broker's process does at its start

    probe = Probe(loop)
    end = time.monotonic() + QUIET_S
    probe.run_while(lambda: time.monotonic() < end)
    print(f"nothing to delete: {probe.report()}")

    retention = LogRetention(table, PartitionEvents(loop.defer), slices, clock.wall_ms)
    directory = partition.log.directory
    began = time.perf_counter()
    loop.next_turn(retention.on_tick)
    probe = Probe(loop)
    probe.run_while(lambda: len(partition.log.segments) > 1)
    print(f"deleted from the log after {time.perf_counter() - began:.2f} s: {probe.report()}")
    probe = Probe(loop)
    probe.run_while(lambda: _has_files_of_deleted(directory), every_s=0.25)
    print(f"renamed and unlinked after {time.perf_counter() - began:.2f} s: {probe.report()}")
    maker.close()
    remover.close()
    loop.close()


class Probe:
    """Notes how long each turn of a loop takes, without waits for a processor of the machine."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._turns_ms: list[float] = []
        self._schedstat = Path("/proc/thread-self/schedstat").open("rb", buffering=0)  # noqa: SIM115

    def _waited_ms(self) -> float:
        """How long this thread could have run, but others had the processors."""
        self._schedstat.seek(0)
        return int(self._schedstat.read().split()[1]) / 1e6

    def run_while(self, condition: Callable[[], bool], every_s: float = 0.0) -> None:
        look_at = 0.0
        while True:
            now = time.monotonic()
            if now >= look_at:
                if not condition():
                    return
                look_at = now + every_s
            waited_ms, began = self._waited_ms(), time.perf_counter()
            self._loop.run_once(max_wait_ms=0)
            took_ms = (time.perf_counter() - began) * 1e3
            self._turns_ms.append(took_ms - (self._waited_ms() - waited_ms))

    def report(self) -> str:
        turns = sorted(self._turns_ms)
        p99 = turns[len(turns) * 99 // 100]
        longest = ", ".join(f"{turn:.2f}" for turn in turns[-3:])
        return f"{len(turns)} turns, 99 % below {p99:.3f} ms, the longest {longest} ms"


def _has_files_of_deleted(directory: Path) -> bool:
    return sum(1 for _ in directory.iterdir()) > 20


if __name__ == "__main__":
    main()
