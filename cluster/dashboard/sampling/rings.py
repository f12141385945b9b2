"""Samples of the last while at one resolution, in bounded memory. Pure."""

import math
from array import array
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

_LATE: Final = 2.5
"""After this many times the expected interval without a sample there is a gap."""


class Ring:
    """The samples of `span_s` seconds, one every `step_s`. Times are in ms since 1970."""

    def __init__(self, step_s: float, span_s: float) -> None:
        self.step_s = step_s
        self.span_s = span_s
        self._columns: dict[str, int] = {}
        self._samples: deque[tuple[int, array[float]]] = deque()

    def __len__(self) -> int:
        return len(self._samples)

    def is_due(self, now_ms: int) -> bool:
        """Whether the last sample is a step old; half a second less is enough."""
        if not self._samples:
            return True
        return not 0 <= now_ms - self._samples[-1][0] < self.step_s * 1_000 - 500

    def add(
        self, now_ms: int, values: Mapping[str, float | None], expected_s: float | None = None
    ) -> None:
        """Add a sample. If the last one is much older than the expected interval, one without
        values precedes it: a line through the samples has a gap there.

        If the clock was set back, later samples are dropped.
        """
        samples = self._samples
        while samples and samples[-1][0] >= now_ms:
            samples.pop()
        interval_ms = 1_000 * max(self.step_s, expected_s or 0)
        if samples and now_ms - samples[-1][0] > _LATE * interval_ms:
            samples.append((samples[-1][0] + int(interval_ms), array("d")))
        for name in values:
            self._columns.setdefault(name, len(self._columns))
        row = array("d", [math.nan]) * len(self._columns)
        for name, value in values.items():
            if value is not None:
                row[self._columns[name]] = value
        samples.append((now_ms, row))
        while samples[0][0] < now_ms - self.span_s * 1_000:
            samples.popleft()

    def since(self, since_ms: int) -> tuple[list[int], dict[str, list[float | None]]]:
        """The times after `since_ms`, and the columns with any value there; None is a gap."""
        found = [sample for sample in self._samples if sample[0] > since_ms]
        columns: dict[str, list[float | None]] = {}
        for name, at in self._columns.items():
            values = [_value(row, at) for _, row in found]
            if any(value is not None for value in values):
                columns[name] = values
        return [time for time, _ in found], columns

    def to_json(self, since_ms: int) -> dict[str, Any]:
        times, columns = self.since(since_ms)
        return {"ts": times, "values": columns}


def _value(row: "array[float]", at: int) -> float | None:
    """Five digits are more than a chart shows."""
    if at >= len(row) or math.isnan(row[at]):
        return None
    return float(f"{row[at]:.5g}")
