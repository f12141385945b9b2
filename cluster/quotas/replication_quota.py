"""The quota of throttled replicas in one direction: the rate, and what may move now. Pure.

Kafka's `ReplicationQuotaManager` admits a fetch of any size while the measured rate is not above
the limit. Here the size is part of the decision: the limit accumulates as bytes that may move, at
most a tenth of a second's worth, and an answer contains no more than that, or one batch. The rest
of a batch is owed, so that the limit holds over seconds whatever the size of batches.
"""

from typing import Final, NamedTuple

from cluster.model.clocks import MonotonicMs
from cluster.quotas.sampled_rate import SampledRate, WindowOptions

CHUNK_BYTES: Final = 256 << 10
"""The most that a replica which catches up is given at once: a follower that appends more in one
turn delays the records of other partitions."""
_BURST_MS: Final = 100
"""How long unused bytes may be used later. A longer time would admit more than 1 % above the limit
in 10 s, a shorter one would lose bytes whenever a broker is busy for that long."""
_PAUSE_MS: Final = 25
"""Once nothing may move, it is so until this time's worth has accumulated: 40 fetches a second
instead of one for each batch."""


class Grant(NamedTuple):
    """What one answer may contain."""

    most_bytes: int
    """More only for a single batch."""
    reserved_bytes: int
    """At least as much: what the answer is expected to contain."""


class ReplicationQuota:
    """Bytes of throttled replicas that one broker sends as a leader, or receives as a follower.

    Invariant: what is moved between two times by `take` and `settle` is at most the limit x (that
    time + 0.1 s) + one batch for each answer that is on its way.
    """

    def __init__(self, windows: WindowOptions, now_ms: MonotonicMs) -> None:
        self._measured = SampledRate(windows, now_ms)
        self._debt_ms_max = windows.span_ms
        self._limit: int | None = None
        self._level = 0.0
        """Bytes that may move; negative if some are owed."""
        self._at_ms = now_ms
        self._is_open = False
        self._batch_bytes = 0
        """The size of the last answer, if it was one batch larger than what was granted. The next
        ones may be, too: without this each leader of a follower would send one.
        """
        self.total_bytes = 0
        """The bytes counted since the start."""

    @property
    def limit(self) -> int | None:
        """Bytes per second; None without a limit."""
        return self._limit

    def set_limit(self, limit: int | None, now_ms: MonotonicMs) -> None:
        """Replace the limit, at once: what was owed under another one is forgiven."""
        if limit != self._limit:
            self._limit = limit
            self._level = 0.0
            self._at_ms = now_ms
            self._is_open = False

    def rate(self, now_ms: MonotonicMs) -> float:
        """The bytes per second over the windows, as Kafka's `byte-rate`."""
        return self._measured.rate(now_ms)

    def take(self, now_ms: MonotonicMs, sharers: int = 1) -> Grant | None:
        """Reserve the bytes that one answer may contain; None while the quota is exceeded.

        So many share what may move, including the one that takes. To be followed by `settle`.
        """
        if self._limit is None:
            return Grant(CHUNK_BYTES, 0)
        self._accumulate(self._limit, now_ms)
        if not self._is_open:
            return None
        most_bytes = min(max(1, int(self._level / sharers)), CHUNK_BYTES)
        reserved_bytes = max(most_bytes, self._batch_bytes)
        self._level -= reserved_bytes
        return Grant(most_bytes, reserved_bytes)

    def settle(self, grant: Grant, used: int, now_ms: MonotonicMs) -> None:
        """An answer contained `used` bytes of a grant, or more, or will never come."""
        if used:
            self._batch_bytes = used if used > grant.most_bytes else 0
        if self._limit is not None:
            self._accumulate(self._limit, now_ms)
            self._level += grant.reserved_bytes - used
            self._is_open = self._is_open or (grant.reserved_bytes > used and self._level >= 1)
        self._count(used, now_ms)

    def record(self, used: int, now_ms: MonotonicMs) -> None:
        """Count bytes of a replica that is in sync, which are never withheld.

        As in Kafka, they are forgotten with their windows; otherwise a busy partition would keep
        replicas waiting for long after it is quiet again.
        """
        if self._limit is not None:
            self._accumulate(self._limit, now_ms)
            most_owed = self._limit * self._debt_ms_max / 1_000
            self._level = max(self._level - used, min(self._level, -most_owed))
        self._count(used, now_ms)

    def wait_ms(self, now_ms: MonotonicMs) -> int | None:
        """The time until `take` gives something; None if that is never, with a limit of 0."""
        limit = self._limit
        if limit is None:
            return 0
        self._accumulate(limit, now_ms)
        if self._is_open:
            return 0
        if limit == 0:
            return None
        missing = _pause_bytes(limit) - self._level
        return max(1, -int(-missing * 1_000 // limit))

    def _accumulate(self, limit: int, now_ms: MonotonicMs) -> None:
        if now_ms > self._at_ms:
            most = max(limit * _BURST_MS / 1_000, _pause_bytes(limit))
            self._level = min(most, self._level + limit * (now_ms - self._at_ms) / 1_000)
            self._at_ms = now_ms
        self._is_open = self._level >= (1 if self._is_open else _pause_bytes(limit))

    def _count(self, used: int, now_ms: MonotonicMs) -> None:
        if used:
            self.total_bytes += used
            self._measured.record(used, now_ms)


def _pause_bytes(limit: int) -> float:
    return max(1.0, limit * _PAUSE_MS / 1_000)
