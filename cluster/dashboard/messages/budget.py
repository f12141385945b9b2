"""What one request may read. Pure: the clock is an argument."""

from collections.abc import Callable
from typing import Final

RECORDS_MAX: Final = 200_000
BYTES_MAX: Final = 32 * 1024 * 1024
"""Fetched batches count, and so do records that are kept."""
SECONDS_MAX: Final = 5.0


class Budget:
    """Counts what a request has read, and says when that is enough."""

    def __init__(
        self,
        now_s: Callable[[], float],
        *,
        records: int = RECORDS_MAX,
        size_bytes: int = BYTES_MAX,
        seconds: float = SECONDS_MAX,
    ) -> None:
        """`now_s` is a monotonic clock."""
        self._now_s = now_s
        self._deadline_s = now_s() + seconds
        self._seconds = seconds
        self._records_max = records
        self._bytes_max = size_bytes
        self.records = 0
        """Records that were looked through."""
        self.size_bytes = 0

    @property
    def seconds_left(self) -> float:
        """Negative once the time is over."""
        return self._deadline_s - self._now_s()

    @property
    def exhausted(self) -> str | None:
        """Which limit has been reached."""
        if self.records >= self._records_max:
            return f"{self._records_max:,} records"
        if self.size_bytes >= self._bytes_max:
            return f"{self._bytes_max >> 20} MiB"
        if self.seconds_left <= 0:
            return f"{self._seconds:g} s"
        return None
