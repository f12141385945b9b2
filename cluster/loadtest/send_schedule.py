"""The times at which the records of one producer are due. Pure.

They are fixed before the first record is sent. A producer that falls behind sends late, and its
latencies count from when the record was due, so waiting is measured, too (coordinated omission).
"""

from dataclasses import dataclass
from typing import Final, Self

UNLIMITED: Final = -1.0
GRACE_US: Final = 500_000
"""The time after the duration in which late records, due within it, are still sent."""
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SendSchedule:
    """Record n is due at `start_us + n / rate`; in an unlimited schedule always immediately."""

    start_us: int
    records_per_s: float
    """UNLIMITED or above 0."""
    record_count: int | None = None
    """None to send until `duration_us` have passed."""
    duration_us: int | None = None

    @classmethod
    def share(
        cls,
        whole: "SendSchedule",
        index: int,
        count: int,
    ) -> Self:
        """The part of producer `index` of `count`: every `count`-th record of the whole."""
        limit = whole.record_count
        if whole.records_per_s == UNLIMITED:
            start_us, rate = whole.start_us, UNLIMITED
        else:
            start_us = whole.start_us + int(index * _MICROSECONDS / whole.records_per_s)
            rate = whole.records_per_s / count
        share = None if limit is None else limit // count + (index < limit % count)
        return cls(start_us, rate, share, whole.duration_us)

    def due_count(self, now_us: int) -> int | None:
        """The number of records that are due; None for an unlimited schedule without an end."""
        elapsed_us = now_us - self.start_us
        if elapsed_us < 0:
            return 0
        if self.records_per_s == UNLIMITED:
            return self.record_count
        if self.duration_us is not None:
            elapsed_us = min(elapsed_us, self.duration_us - 1)
        due = int(elapsed_us * self.records_per_s / _MICROSECONDS) + 1
        return due if self.record_count is None else min(due, self.record_count)

    def due_at_us(self, index: int, now_us: int) -> int:
        """When record `index` is due; now if the schedule is unlimited."""
        if self.records_per_s == UNLIMITED:
            return now_us
        return self.start_us + int(index * _MICROSECONDS / self.records_per_s)

    def is_over(self, sent: int, now_us: int) -> bool:
        """Whether nothing is left to send, because all is sent or GRACE_US has passed."""
        if self.record_count is not None and sent >= self.record_count:
            return True
        if self.duration_us is None:
            return False
        late_us = now_us - self.start_us - self.duration_us
        return late_us >= 0 and (late_us >= GRACE_US or self.unsent(sent, now_us) == 0)

    def unsent(self, sent: int, now_us: int) -> int:
        """The number of records that are due and not sent."""
        if self.records_per_s == UNLIMITED:
            return 0
        due = self.due_count(now_us)
        return 0 if due is None else max(due - sent, 0)
