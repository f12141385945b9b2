"""The figures of one client in an interval of time; intervals add up to longer ones. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from cluster.loadtest.latency_histogram import LatencyHistogram

_ERROR_TEXTS_MAX: Final = 20
"""Different error texts that are counted separately; the others are counted together."""


class ClientInterval:
    """Counts of one producer or consumer within [from_us, until_us) of the machine's clock.

    A producer's records are the acknowledged ones. Latency is the time from when a record was due
    to its acknowledgment, or to its arrival at a consumer; send delay the time from when it was due
    to when it was passed to the client library. `abandoned` records were purged before a response.
    """

    __slots__ = (
        "abandoned",
        "aborted_transactions",
        "bytes_by_partition",
        "commit_latency",
        "errors",
        "failed",
        "from_us",
        "latency",
        "records",
        "send_delay",
        "sent",
        "size_bytes",
        "throttle_count",
        "throttle_ms",
        "throttle_ms_max",
        "transactions",
        "until_us",
    )

    def __init__(self, from_us: int, until_us: int | None = None) -> None:
        self.from_us = from_us
        self.until_us = from_us if until_us is None else until_us
        self.sent = 0
        self.records = 0
        self.failed = 0
        self.abandoned = 0
        self.size_bytes = 0
        self.bytes_by_partition: Counter[int] = Counter()
        self.latency = LatencyHistogram()
        self.send_delay = LatencyHistogram()
        self.throttle_count = 0
        self.throttle_ms = 0
        self.throttle_ms_max = 0
        self.errors: Counter[str] = Counter()
        self.transactions = 0
        """Those that were committed; `commit_latency` is the time that a commit took."""
        self.aborted_transactions = 0
        self.commit_latency = LatencyHistogram()

    # -- what happens ------------------------------------------------------------------------------

    def on_record(self, partition: int, size_bytes: int, latency_us: int) -> None:
        """Count a record that was acknowledged or has arrived."""
        self.records += 1
        self.size_bytes += size_bytes
        self.bytes_by_partition[partition] += size_bytes
        self.latency.record(latency_us)

    def on_throttle(self, throttle_ms: int) -> None:
        """Count a throttle time in a response, except for 0, which ends throttling."""
        if throttle_ms > 0:
            self.throttle_count += 1
            self.throttle_ms += throttle_ms
            self.throttle_ms_max = max(self.throttle_ms_max, throttle_ms)

    def on_error(self, text: str, count: int = 1) -> None:
        """Count an error by its text; does not change `failed`."""
        known = text in self.errors or len(self.errors) < _ERROR_TEXTS_MAX
        self.errors[text if known else "other errors"] += count

    def add(self, other: "ClientInterval") -> None:
        """Add the other's counts; the result spans from the earlier start to the later end."""
        self.from_us = min(self.from_us, other.from_us)
        self.until_us = max(self.until_us, other.until_us)
        self.sent += other.sent
        self.records += other.records
        self.failed += other.failed
        self.abandoned += other.abandoned
        self.size_bytes += other.size_bytes
        self.bytes_by_partition.update(other.bytes_by_partition)
        self.latency.add(other.latency)
        self.send_delay.add(other.send_delay)
        self.throttle_count += other.throttle_count
        self.throttle_ms += other.throttle_ms
        self.throttle_ms_max = max(self.throttle_ms_max, other.throttle_ms_max)
        for text, count in other.errors.items():
            self.on_error(text, count)
        self.transactions += other.transactions
        self.aborted_transactions += other.aborted_transactions
        self.commit_latency.add(other.commit_latency)

    # -- what it comes to --------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """The length of the interval."""
        return (self.until_us - self.from_us) / 1e6

    @property
    def records_per_s(self) -> float:
        """Records acknowledged (producer) or received (consumer), per second."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes of keys and values acknowledged or received, per second."""
        return self.size_bytes / self.seconds if self.seconds else 0.0

    @property
    def transactions_per_s(self) -> float:
        """Committed transactions per second."""
        return self.transactions / self.seconds if self.seconds else 0.0

    @property
    def throttle_ms_average(self) -> float:
        """Average throttle time over the responses that throttled; 0 without any."""
        return self.throttle_ms / self.throttle_count if self.throttle_count else 0.0

    # -- between processes -------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        document = {name: getattr(self, name) for name in _PLAIN}
        document["bytes_by_partition"] = list(self.bytes_by_partition.items())
        document["latency"] = self.latency.to_json()
        document["send_delay"] = self.send_delay.to_json()
        document["commit_latency"] = self.commit_latency.to_json()
        document["errors"] = dict(self.errors)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The interval that another process has counted."""
        one = cls(0)
        for name in _PLAIN:
            setattr(one, name, document[name])
        one.bytes_by_partition = Counter(dict(document["bytes_by_partition"]))
        one.latency = LatencyHistogram.from_json(document["latency"])
        one.send_delay = LatencyHistogram.from_json(document["send_delay"])
        one.commit_latency = LatencyHistogram.from_json(document["commit_latency"])
        one.errors = Counter(document["errors"])
        return one


_PLAIN: Final = (
    "from_us",
    "until_us",
    "sent",
    "records",
    "failed",
    "abandoned",
    "size_bytes",
    "throttle_count",
    "throttle_ms",
    "throttle_ms_max",
    "transactions",
    "aborted_transactions",
)


def total(intervals: Iterable[ClientInterval]) -> ClientInterval:
    """The sum of all intervals; without any, an empty one of length 0."""
    parts = iter(intervals)
    first = next(parts, None)
    if first is None:
        return ClientInterval(0)
    whole = ClientInterval(first.from_us)
    whole.add(first)
    for part in parts:
        whole.add(part)
    return whole


def within(
    intervals: Iterable[ClientInterval], from_us: int, until_us: int
) -> list[ClientInterval]:
    """The intervals that lie entirely in [from_us, until_us]."""
    return [part for part in intervals if from_us <= part.from_us and part.until_us <= until_us]
