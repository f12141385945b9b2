"""What checked bytes cost: reads of closed and of active segments, and the scrub.

    PYTHONPATH=. .venv/bin/python bench/checks.py [--megabytes N] [--directory DIR]

Reads a log as a consumer's fetches do, 1 MiB at a time, and sends it through a socket pair by
`sendfile`, as a broker does with large answers. Figures are microseconds of this process's
processor time for a MiB, the least of several rounds.
"""

import argparse
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.records.builder import NewRecord, build_batch
from cluster.records.produced import validate_produced

MIB = 1 << 20
FETCH_BYTES = MIB
ROUNDS = 5
NOW_MS = WallMs(1_700_000_000_000)


def main() -> None:
    """Print one line for each size of batches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=128)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--sizes", default="1024,16384,262144", help="of a batch")
    options = parser.parse_args()
    print("us for 1 MiB: batch, active; closed: first read, again; sent by sendfile; scrub")
    for size in map(int, options.sizes.split(",")):
        root = Path(tempfile.mkdtemp(dir=options.directory))
        try:
            print(size, *(f"{value:.1f}" for value in measure(root, size, options.megabytes)))
        finally:
            shutil.rmtree(root)


def measure(root: Path, batch_bytes: int, megabytes: int) -> list[float]:
    """The five figures."""
    log = a_log(root, batch_bytes, megabytes)
    active = least(lambda: read(log))
    sent = least(lambda: send(log))
    log.roll(NOW_MS)
    first = spent(lambda: read(log))
    again = least(lambda: read(log))
    figures = [active, first, again, sent]
    return [1e6 * seconds / megabytes for seconds in (*figures, scrub(log))]


def scrub(log: PartitionLog) -> float:
    """Seconds for the check that the scrub makes; 0 in versions without one."""
    try:
        from cluster.brokers.storage.log_scrubber import file_of
        from cluster.log.segment_check import SegmentCheck
    except ImportError:
        return 0.0
    return least(lambda: [SegmentCheck(file_of(log, one)).run() for one in log.segments])


def a_log(root: Path, batch_bytes: int, megabytes: int) -> PartitionLog:
    """One active segment of batches of that size."""
    log = PartitionLog.open(
        root / "t-0",
        TopicPartition("t", 0),
        LogOptions(segment_bytes=2 * megabytes * MIB),
        NOW_MS,
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )
    batch = bytes(build_batch([NewRecord(os.urandom(batch_bytes - 80), None, NOW_MS)]))
    for _ in range(megabytes * MIB // len(batch)):
        produced = validate_produced(memoryview(bytearray(batch)), log.limits, NOW_MS)
        log.append(produced, LeaderEpoch(0), NOW_MS)
    return log


def read(log: PartitionLog) -> None:
    """All of it, as slices."""
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        offset = log.read(
            offset, FETCH_BYTES, upper_offset=end, at_least_one_batch=True
        ).next_offset


def send(log: PartitionLog) -> None:
    """All of it, through a socket to a thread that drops it."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=drain, args=(theirs,))
    thread.start()
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        part = log.read(offset, FETCH_BYTES, upper_offset=end, at_least_one_batch=True)
        position, left = part.position, part.size_bytes
        while left:
            done = os.sendfile(ours.fileno(), part.fileno(), position, left)
            position, left = position + done, left - done
        offset = part.next_offset
    ours.close()
    thread.join()


def drain(connection: socket.socket) -> None:
    """Receive until the end."""
    buffer = bytearray(MIB)
    while connection.recv_into(buffer):
        pass
    connection.close()


def spent(act: Callable[[], object]) -> float:
    """Processor time of the calling thread, in seconds."""
    began = time.thread_time()
    act()
    return time.thread_time() - began


def least(act: Callable[[], object]) -> float:
    """Of several rounds."""
    return min(spent(act) for _ in range(ROUNDS))


if __name__ == "__main__":
    main()
