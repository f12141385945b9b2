"""The shapes of a plot of throughput and p99 over time, with marks of events. Pure."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from cluster.analytics.capacity.report import EventRow, Events, Series
from cluster.analytics.capacity.trends import DAY_S
from cluster.analytics.reports.svg_shapes import (
    WIDTH,
    Plot,
    Shape,
    TimeScale,
    straight,
    value_axis,
)
from cluster.views.quantities import clock, rate_unit, round_steps

_RATE_TOP: Final = 24
_RATE_HEIGHT: Final = 170
_P99_TOP: Final = 226
_P99_HEIGHT: Final = 56
_BOTTOM: Final = _P99_TOP + _P99_HEIGHT
_HEIGHT: Final = 322
_STEPS: Final = 4
_P99_STEPS: Final = 2
_MARK_PX: Final = 3
"""Events closer than this many pixels share a mark."""
_TIP_LINES: Final = 12
LEGEND: Final = (("broker0", "bytes in"), ("broker1", "bytes out"), ("broker2", "p99 of Produce"))
"""CSS classes of colors, and what they mean."""


def plot(series: Series, events: Events) -> Plot:
    """Plot bytes in and out, the p99 below them, and a vertical line for each event."""
    rates = [*series.bytes_in_per_s, *series.bytes_out_per_s]
    highest = max((rate for rate in rates if rate is not None), default=0.0)
    divisor, unit = rate_unit("produce", highest)
    marks = round_steps(highest * 1.05 / divisor, _STEPS)
    slowest = max((each for each in series.produce_p99_ms if each is not None), default=0.0)
    slow_marks = round_steps(slowest, _P99_STEPS)
    scale = TimeScale(series.start_s[0], series.start_s[-1] + series.step_s)
    shapes = [
        *value_axis(marks, _RATE_TOP, _RATE_HEIGHT, f"bytes, {unit}"),
        *value_axis(slow_marks, _P99_TOP, _P99_HEIGHT, "p99, ms"),
        *scale.axis(_RATE_TOP, _BOTTOM, partial(_time_label, scale)),
    ]
    for kind, values in (("broker0", series.bytes_in_per_s), ("broker1", series.bytes_out_per_s)):
        scaled = [None if value is None else value / divisor / marks[-1] for value in values]
        steps = _steps(series, scaled, _RATE_TOP, _RATE_HEIGHT)
        shapes.append(scale.steps(f"rate {kind}", steps))
    p99 = [None if value is None else value / slow_marks[-1] for value in series.produce_p99_ms]
    shapes.append(scale.steps("rate broker2", _steps(series, p99, _P99_TOP, _P99_HEIGHT)))
    shapes += _event_marks(scale, events.rows)
    return Plot(WIDTH, _HEIGHT, "Bytes in and out over time, with events", shapes)


def _time_label(scale: TimeScale, time_s: int) -> str:
    whole = clock(time_s, with_day=True)
    return whole[5:10] if scale.end_s - scale.first_s > 2 * DAY_S else whole[11:16]


def _event_marks(scale: TimeScale, events: Sequence[EventRow]) -> Iterator[Shape]:
    """One mark for all events at the same place; its tooltip lists them."""
    together: list[tuple[float, list[EventRow]]] = []
    for event in events:
        x = scale.x(event.start_s)
        if together and x - together[-1][0] < _MARK_PX:
            together[-1][1].append(event)
        else:
            together.append((x, [event]))
    for x, found in together:
        lines = [
            f"{clock(event.start_s, with_day=True)} {event.event}: {event.text}"
            for event in found[:_TIP_LINES]
        ]
        if len(found) > _TIP_LINES:
            lines.append(f"{len(found) - _TIP_LINES:,} more")
        yield straight("event", x, x, _RATE_TOP - 8, _BOTTOM)
        flag = {"x": f"{x - 4:.1f}", "y": f"{_RATE_TOP - 16}", "width": "8", "height": "8"}
        yield Shape("rect", {"class": "flag", **flag}, tip="\n".join(lines))
        column = {"x": f"{x - 4:.1f}", "y": f"{_RATE_TOP}", "width": "8"}
        height = {"height": f"{_BOTTOM - _RATE_TOP}"}
        yield Shape("rect", {"class": "tip", **column, **height}, tip="\n".join(lines))


def _steps(
    series: Series, shares: Sequence[float | None], top: int, height: int
) -> Iterator[tuple[int, int, float]]:
    for start_s, share in zip(series.start_s, shares, strict=True):
        if share is not None:
            yield start_s, start_s + series.step_s, top + height * (1 - share)
