"""How fast a log is compacted, in how much memory, and what a producer feels of it.

    PYTHONPATH=. .venv/bin/python bench/compaction.py [--megabytes 1000] [--keys 1000000]
        [--records 1000,100] [--producer]

Cleanings run in this process, as in a helper. The machine is probably shared: beside the time
passed there is the processor time, and as a measure of the machine the time to read and write the
same bytes once, with their checksums. With --producer a cluster of one broker cleans a log of so
many megabytes while a client produces record by record, waiting for each answer.
"""

import argparse
import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from crc32c import crc32c

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cluster.log.cleaner.cleaning_process import Cleaning  # noqa: E402 - after the path
from cluster.log.cleaner.order import CleaningOrder, SourceSegment  # noqa: E402
from cluster.model.ids import Offset  # noqa: E402
from cluster.records.batch import BatchHeader, stamp_checksum  # noqa: E402
from cluster.records.builder import NewRecord, build_batch  # noqa: E402
from cluster.records.varint import write_varint  # noqa: E402
from tests.support.kafka_wire import WireClient, produce_request  # noqa: E402
from tests.support.running_cluster import Cluster  # noqa: E402
from tests.support.topics import create_topic  # noqa: E402

BATCH_BYTES = 16_384
SEGMENT_BYTES = 100 << 20
MAP_BYTES = 128 << 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--records", default="1000,100", help="sizes of records in bytes")
    parser.add_argument("--producer", action="store_true", help="measure a producer meanwhile")
    options = parser.parse_args()
    if options.producer:
        watch_a_producer(options.megabytes)
        return
    for size in map(int, options.records.split(",")):
        with tempfile.TemporaryDirectory(
            dir=ROOT / "var" if (ROOT / "var").exists() else None
        ) as d:
            measure(Path(d), options.megabytes * 1_000_000, size, options.keys)


def a_batch(base_offset: int, keys: list[int], value: bytes) -> bytes:
    """A batch of records with numbered keys of 16 bytes, made faster than by `build_batch`."""
    records = bytearray()
    for at, key in enumerate(keys):
        body = bytearray(1)
        for number in (at, at, 16):
            write_varint(body, number)
        body += b"key-%012d" % key
        write_varint(body, len(value))
        body += value + b"\0"
        write_varint(records, len(body))
        records += body
    count = len(keys)
    header = BatchHeader(
        base_offset,
        len(records) + 49,
        0,
        2,
        0,
        0,
        count - 1,
        1_000,
        1_000 + count,
        -1,
        -1,
        -1,
        count,
    )
    batch = bytearray(header.pack()) + records
    stamp_checksum(memoryview(batch))
    return bytes(batch)


def write_log(directory: Path, size: int, record_bytes: int, keys: int) -> list[SourceSegment]:
    """Closed segments of that many bytes in all, with random keys."""
    random, value = Random(1), os.urandom(record_bytes - 25)
    count, per_batch = size // record_bytes, max(1, BATCH_BYTES // record_bytes)
    segments, offset = [], 0
    while offset < count:
        base, path = offset, directory / f"{offset:020d}.log"
        with path.open("wb") as file:
            while offset < count and file.tell() < SEGMENT_BYTES:
                wanted = [random.randrange(keys) for _ in range(min(per_batch, count - offset))]
                file.write(a_batch(offset, wanted, value))
                offset += len(wanted)
        segments.append(SourceSegment(Offset(base), path.stat().st_size))
    return segments


def measure(directory: Path, size: int, record_bytes: int, keys: int) -> None:
    """Clean one log, and print how that went."""
    segments = write_log(directory, size, record_bytes, keys)
    total = sum(segment.size_bytes for segment in segments)
    for path in directory.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    copied = copy(directory, segments)
    order = CleaningOrder(
        directory=str(directory),
        segments=segments,
        later_segments=[],
        first_dirty_offset=Offset(0),
        upper_offset=Offset(size // record_bytes),
        now_ms=1_700_000_000_000,
        delete_retention_ms=86_400_000,
        segment_bytes=1 << 30,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
        map_bytes=MAP_BYTES,
        load_factor=0.9,
        io_buffer_bytes=256 << 10,
        io_bytes_per_second=float("inf"),
        producers={},
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, began_cpu = time.monotonic(), time.process_time()
    cleaning = Cleaning(order)
    for _ in cleaning.run():
        pass
    passed, cpu = time.monotonic() - began, time.process_time() - began_cpu
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    stats = cleaning.result().stats
    print(
        f"{total / 1e6:,.0f} MB of {record_bytes}-byte records, {stats.map_keys:,} keys: "
        f"{total / passed / 1e6:.0f} MB/s ({total / cpu / 1e6:.0f} MB/s of processor time), "
        f"{stats.read_records / cpu:,.0f} records a second; {stats.kept_bytes / total:.0%} kept; "
        f"a copy of it all takes {copied:.1f} s, this {passed:.1f} s; "
        f"memory grew by {grown / 1024:.0f} MiB, room for keys {MAP_BYTES >> 20} MiB",
        flush=True,
    )


def copy(directory: Path, segments: list[SourceSegment]) -> float:
    """Seconds to read the log, check it and write it again, synced."""
    target = directory / "copy"
    began = time.monotonic()
    with target.open("wb", buffering=0) as written:
        for segment in segments:
            with (directory / f"{segment.base_offset:020d}.log").open("rb", buffering=0) as file:
                while chunk := file.read(256 << 10):
                    crc32c(chunk)
                    written.write(chunk)
        os.fsync(written.fileno())
    passed = time.monotonic() - began
    target.unlink()
    return passed


# -- a producer meanwhile --------------------------------------------------------------------------


@contextlib.contextmanager
def a_cluster() -> Iterator[Cluster]:
    """One broker that looks for dirty logs often."""
    folder = Path(tempfile.mkdtemp())
    with Cluster(folder / "c", brokers=1, overrides={"log.cleaner.backoff.ms": "100"}) as cluster:
        yield cluster.start()
    shutil.rmtree(folder)


def watch_a_producer(megabytes: int) -> None:
    """Latencies of single records: with nothing else, and while a large log is cleaned."""
    with a_cluster() as cluster:
        big = create_topic(
            cluster,
            "big",
            replication_factor=1,
            configs={
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "1.0",  # which is never exceeded
                "segment.bytes": str(16 << 20),
            },
        )
        small = create_topic(cluster, "small", replication_factor=1)
        address = cluster.addresses[0]
        with WireClient(address) as client:
            load(client, big, megabytes)
            time.sleep(5)
            quiet = latencies(client, small, lambda: False, 10.0)
            cluster.command(
                "configs",
                "--alter",
                "--entity-type=topics",
                f"--entity-name={big}",
                "--add-config=min.cleanable.dirty.ratio=0.1",
            )
            busy = latencies(client, small, lambda: is_cleaned(cluster), 600.0)
        line = next(one for one in cluster.log_lines(0, "INFO") if "dirty section" in one)
        print(line)
        for name, found in (("quiet", quiet), ("while it cleans", busy)):
            p50, p99 = percentile(found, 50), percentile(found, 99)
            print(f"{name}: {len(found):,} records, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        print(f"p99 rose by a factor of {percentile(busy, 99) / percentile(quiet, 99):.2f}")


def percentile(found: list[float], percent: int) -> float:
    return found[len(found) * percent // 100]


def is_cleaned(cluster: Cluster) -> bool:
    return any("dirty section" in line for line in cluster.log_lines(0, "INFO"))


def load(client: WireClient, topic: str, megabytes: int) -> None:
    random, value = Random(1), os.urandom(975)
    for _ in range(megabytes):
        keys = [random.randrange(megabytes * 500) for _ in range(1_000)]
        client.send(produce_request(topic, a_batch(0, keys, value)))
        client.receive()


def latencies(client: WireClient, topic: str, is_over: Any, most_s: float) -> list[float]:
    """Milliseconds for each record, sorted."""
    found, began, looked = [], time.monotonic(), time.monotonic()
    batch = bytes(build_batch([NewRecord(bytes(100), None, int(time.time() * 1_000))]))
    while time.monotonic() - began < most_s:
        sent = time.perf_counter()
        client.send(produce_request(topic, batch))
        client.receive()
        found.append((time.perf_counter() - sent) * 1_000)
        time.sleep(0.001)
        if time.monotonic() - looked > 0.5:
            looked = time.monotonic()
            if is_over():
                break
    return sorted(found)


if __name__ == "__main__":
    main()
