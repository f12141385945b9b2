"""The shapes of a plot of one client's rate against its limit, per broker, and its throttle time.

Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cluster.analytics.reports.svg_shapes import (
    LEFT,
    MIDDLE,
    RIGHT,
    WIDTH,
    Plot,
    Shape,
    TimeScale,
    rectangle,
    straight,
    text,
    value_axis,
)
from cluster.analytics.reports.usage_history import ClientUsage, Point, Span
from cluster.views.quantities import clock, duration, rate, rate_unit, round_steps

COLORS: Final = 6
"""The number of colors; further brokers reuse them in the same order."""

_RATE_TOP: Final = 14
_RATE_HEIGHT: Final = 170
_THROTTLE_TOP: Final = 222
_THROTTLE_HEIGHT: Final = 56
_BOTTOM: Final = _THROTTLE_TOP + _THROTTLE_HEIGHT
_HEIGHT: Final = 318
_RATE_STEPS: Final = 4
_THROTTLE_STEPS: Final = 2
_BAR_SHARE: Final = 0.8


def plot(usage: ClientUsage, span: Span) -> Plot:
    """A plot with both axes, a line per broker, the limit, and the throttle time as bars."""
    points = [point for series in usage.series.values() for point in series]
    highest = max(max(point.rate, point.limit or 0.0) for point in points)
    divisor, unit = rate_unit(usage.quota, highest)
    marks = round_steps(highest * 1.05 / divisor, _RATE_STEPS)
    scale = TimeScale(span.first_s, span.end_s)
    shapes = [
        *value_axis(marks, _RATE_TOP, _RATE_HEIGHT, f"rate, {unit}"),
        *scale.axis(_RATE_TOP, _BOTTOM, clock),
    ]
    shapes += [
        scale.steps(f"rate {color(broker)}", _rates(usage.series[broker], span, divisor, marks[-1]))
        for broker in sorted(usage.series)
    ]
    limits = _limits(usage, span, divisor, marks[-1])
    if limits:
        shapes.append(scale.steps("limit", limits))
    shapes += _throttle_bars(usage, span, scale)
    label = f"{usage.name}: {usage.quota} rate against its limit, and throttle time"
    return Plot(WIDTH, _HEIGHT, label, shapes)


def color(broker: int) -> str:
    """The CSS class of a broker's line."""
    return f"broker{broker % COLORS}"


def _rates(
    points: Sequence[Point], span: Span, divisor: float, top: float
) -> Iterator[tuple[int, int, float]]:
    for point in points:
        yield point.start_s, point.start_s + span.width_s, _rate_y(point.rate / divisor, top)


def _limits(
    usage: ClientUsage, span: Span, divisor: float, top: float
) -> list[tuple[int, int, float]]:
    """The limit in each window; it is the same on every broker, and may change."""
    limits = {
        point.start_s: point.limit
        for series in usage.series.values()
        for point in series
        if point.limit is not None
    }
    return [
        (start_s, start_s + span.width_s, _rate_y(limits[start_s] / divisor, top))
        for start_s in sorted(limits)
    ]


def _throttle_bars(usage: ClientUsage, span: Span, scale: TimeScale) -> Iterator[Shape]:
    """One bar per window, in which the brokers' throttle times are stacked."""
    stacks: dict[int, list[tuple[int, Point]]] = {}
    for broker in sorted(usage.series):
        for point in usage.series[broker]:
            stacks.setdefault(point.start_s, []).append((broker, point))
    highest = max(sum(point.throttle_ms for _, point in stack) for stack in stacks.values())
    marks = round_steps(highest, _THROTTLE_STEPS) if highest else [0.0]
    labels = [duration(mark).replace(".0 ", " ") for mark in marks]
    if highest:
        yield from value_axis(marks, _THROTTLE_TOP, _THROTTLE_HEIGHT, "throttle", labels)
    else:
        yield from _never_throttled()
    for start_s, stack in stacks.items():
        ends = scale.x(start_s), scale.x(start_s + span.width_s)
        below = 0.0
        for broker, point in stack:
            if point.throttle_ms:
                yield _bar(broker, ends, below, point.throttle_ms, marks[-1])
                below += point.throttle_ms
        yield _tip(usage, start_s, stack, span, ends)


def _never_throttled() -> Iterator[Shape]:
    yield straight("grid", LEFT, WIDTH - RIGHT, _BOTTOM, _BOTTOM)
    middle = _THROTTLE_TOP + _THROTTLE_HEIGHT / 2 + 4
    yield text("tick", "middle", MIDDLE, middle, "never throttled")


def _bar(
    broker: int, ends: tuple[float, float], below_ms: float, amount_ms: float, top_ms: float
) -> Shape:
    full = ends[1] - ends[0]
    x = ends[0] + full * (1 - _BAR_SHARE) / 2
    height = _THROTTLE_HEIGHT * amount_ms / top_ms
    y = _THROTTLE_TOP + _THROTTLE_HEIGHT * (1 - below_ms / top_ms) - height
    return rectangle(f"bar {color(broker)}", x, y, full * _BAR_SHARE, height)


def _tip(
    usage: ClientUsage,
    start_s: int,
    stack: Iterable[tuple[int, Point]],
    span: Span,
    ends: tuple[float, float],
) -> Shape:
    """An invisible rectangle over a window, whose tooltip shows the window's numbers."""
    lines = [f"{clock(start_s, with_day=True)} UTC, {span.width_s} s"]
    for broker, point in stack:
        limit = f" of {rate(usage.quota, point.limit)}" if point.limit is not None else ""
        throttled = f", throttled {duration(point.throttle_ms)}" if point.throttle_ms else ""
        lines.append(f"broker {broker}: {rate(usage.quota, point.rate)}{limit}{throttled}")
    x, end = ends
    column = rectangle("tip", x, _RATE_TOP, end - x, _BOTTOM - _RATE_TOP)
    return column._replace(tip="\n".join(lines))


def _rate_y(amount: float, top: float) -> float:
    return _RATE_TOP + _RATE_HEIGHT * (1 - amount / top)
