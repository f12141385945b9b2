"""The records that every client writes and must read back unchanged."""

import time
from typing import NamedTuple

NOW_MS = int(time.time()) * 1_000
"""Of today: older records would be deleted for their age."""


class Sample(NamedTuple):
    """A record as an application sees it, and the partition it goes to."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NOW_MS


PARTITIONS = 3
SAMPLES = [
    Sample(0, b"key", b"value"),
    Sample(0, b"key", b"value again", (("h", b"1"),), NOW_MS + 5),
    Sample(0, None, b"no key"),
    Sample(0, b"tombstone", None),
    Sample(0, b"", b"", (("empty", b""),)),
    Sample(1, "clé-키".encode(), "värde-값".encode(), (("ü", "ß".encode()),), NOW_MS - 1),
    Sample(1, b"twice", b"same header", (("h", b"1"), ("h", b"2"), ("h", b"1"))),
    Sample(1, b"null header", b"v", (("none", None), ("some", bytes(range(256))))),
    Sample(1, b"large", bytes(range(256)) * 400),
    *(Sample(2, b"k%d" % (n % 7), b"v%d" % n, (), NOW_MS + n) for n in range(200)),
]

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]


def by_partition(samples: list[Sample]) -> dict[int, list[Sample]]:
    """The samples of each partition, in order."""
    return {
        partition: [sample for sample in samples if sample.partition == partition]
        for partition in range(PARTITIONS)
    }
