"""The chart of one client's rate against its limit, per broker, and its throttle time. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from cluster.analytics.reports.svg_shapes import (
    STRETCHED,
    Entry,
    Line,
    Plot,
    Shape,
    TimeScale,
    Values,
    end_labels,
    line,
    marks,
    text,
    value_axis,
)
from cluster.analytics.reports.usage_history import ClientUsage, Point, Span
from cluster.views.quantities import clock, duration, rate_unit, round_steps

LIMIT: Final = Line("limit", "limit")
_RATE_TOP: Final = 22
_RATE_HEIGHT: Final = 170
_THROTTLE_TOP: Final = 228
_THROTTLE_HEIGHT: Final = 56
_BOTTOM: Final = _THROTTLE_TOP + _THROTTLE_HEIGHT
_HEIGHT: Final = _BOTTOM + 24
_RATE_STEPS: Final = 4
_THROTTLE_STEPS: Final = 2
_BAR_SHARE: Final = 0.8


def plot(usage: ClientUsage, span: Span) -> Plot:
    """A chart with both axes, a line per broker, the limit, and the throttle time as bars."""
    points = [point for series in usage.series.values() for point in series]
    highest = max(max(point.rate, point.limit or 0.0) for point in points)
    divisor, unit = rate_unit(usage.quota, highest)
    steps = round_steps(highest * 1.05 / divisor, _RATE_STEPS)
    scale = TimeScale(span.first_s, span.end_s)
    lines = {broker: line(broker, at) for at, broker in enumerate(sorted(usage.series))}
    rates = {
        broker: [(point.start_s, _rate_y(point.rate / divisor, steps[-1])) for point in series]
        for broker, series in usage.series.items()
    }
    limits = _limits(usage)
    limit_y = [(start_s, _rate_y(limit / divisor, steps[-1])) for start_s, limit in limits.items()]
    paths = list(_throttle_bars(usage, lines, scale, span.width_s))
    if limits:
        paths.append(scale.steps("line limit", _stepped(limit_y, span.width_s)))
    labels = [("limit", "limit", limit_y[-1][1])] if limits else []
    shapes = [
        *value_axis(steps, _RATE_TOP, _RATE_HEIGHT, f"rate, {unit}"),
        *_throttle_axis(usage),
        *scale.axis(_RATE_TOP, _BOTTOM, clock),
    ]
    for at, (broker, look) in enumerate(lines.items()):
        paths.append(
            scale.steps(f"line {look.kind} place{at}", _stepped(rates[broker], span.width_s))
        )
        middles = [(scale.percent(start_s + span.width_s / 2), y) for start_s, y in rates[broker]]
        shapes += marks(look, at, len(lines), middles)
        labels.append((look.kind, f"broker {broker}", rates[broker][-1][1]))
    shapes += end_labels(labels, _RATE_TOP, _RATE_TOP + _RATE_HEIGHT)
    legend = [Entry(look, f"broker {broker}") for broker, look in lines.items()]
    if limits:
        legend.append(Entry(LIMIT, "limit per broker"))
    label = f"{usage.name}: {usage.quota} rate against its limit, and throttle time"
    return Plot(_HEIGHT, label, shapes, legend, _data(usage, span, lines, limits), paths)


def _data(
    usage: ClientUsage, span: Span, lines: dict[int, Line], limits: dict[int, float]
) -> dict[str, Any]:
    starts = range(span.first_s, span.end_s, span.width_s)
    highest = max(point.rate for series in usage.series.values() for point in series)
    divisor, unit = rate_unit(usage.quota, max(highest, *limits.values(), 0.0))
    base = rate_unit(usage.quota, 0)[1]
    found = []
    for broker, look in lines.items():
        name = f"broker {broker}"
        rates, throttles = (
            {point.start_s: getattr(point, field) for point in usage.series[broker]}
            for field in ("rate", "throttle_ms")
        )
        found.append(
            Values(name, look.key, f"{name}, {base}", unit, divisor, [*map(rates.get, starts)])
        )
        if any(throttles.values()):
            times = [*map(throttles.get, starts)]
            column = f"{name}, throttle time in ms"
            found.append(Values(name, look.key, column, "ms", 1, times, "throttled"))
    if limits:
        of_limit = [*map(limits.get, starts)]
        column = f"limit, {base}"
        found.append(Values("limit", LIMIT.key, column, unit, divisor, of_limit))
    return {
        "title": f"{usage.name} {usage.quota}",
        "first": span.first_s,
        "step": span.width_s,
        "series": [each.as_json() for each in found],
    }


def _stepped(
    heights: Iterable[tuple[int, float]], width_s: int
) -> Iterator[tuple[int, int, float]]:
    return ((start_s, start_s + width_s, y) for start_s, y in heights)


def _limits(usage: ClientUsage) -> dict[int, float]:
    """The limit in each window; it is the same on every broker, and may change."""
    limits = {
        point.start_s: point.limit
        for series in usage.series.values()
        for point in series
        if point.limit is not None
    }
    return dict(sorted(limits.items()))


def _stacks(usage: ClientUsage) -> dict[int, list[tuple[int, Point]]]:
    """The points of each window, by broker."""
    stacks: dict[int, list[tuple[int, Point]]] = {}
    for broker in sorted(usage.series):
        for point in usage.series[broker]:
            stacks.setdefault(point.start_s, []).append((broker, point))
    return stacks


def _throttle_steps(usage: ClientUsage) -> list[float]:
    """The values of the axis of throttle times; empty if there are none."""
    highest = max(sum(point.throttle_ms for _, point in each) for each in _stacks(usage).values())
    return round_steps(highest, _THROTTLE_STEPS) if highest else []


def _throttle_axis(usage: ClientUsage) -> Iterator[Shape]:
    steps = _throttle_steps(usage)
    title = "throttle time per window, of all brokers"
    if steps:
        labels = [duration(step).replace(".0 ", " ") for step in steps]
        yield from value_axis(steps, _THROTTLE_TOP, _THROTTLE_HEIGHT, title, labels)
        return
    ends = {"x1": "0", "x2": "100%", "y1": f"{_BOTTOM}", "y2": f"{_BOTTOM}"}
    yield Shape("line", {"class": "grid", **ends})
    yield text("tick", "middle", "50%", _THROTTLE_TOP + _THROTTLE_HEIGHT / 2, "never throttled")


def _throttle_bars(
    usage: ClientUsage, lines: dict[int, Line], scale: TimeScale, width_s: int
) -> Iterator[Shape]:
    """A path for each broker: one bar per window, on those of the brokers before it."""
    steps = _throttle_steps(usage)
    if not steps:
        return
    bars: dict[int, list[str]] = {broker: [] for broker in lines}
    for start_s, stack in _stacks(usage).items():
        begin, end = (STRETCHED * scale.share(at) for at in (start_s, start_s + width_s))
        width = (end - begin) * _BAR_SHARE
        x = begin + (end - begin - width) / 2
        y = float(_BOTTOM)
        for broker, point in stack:
            if point.throttle_ms:
                height = _THROTTLE_HEIGHT * point.throttle_ms / steps[-1]
                bars[broker].append(f"M{x:.1f} {y:.1f}v{-height:.1f}h{width:.1f}v{height:.1f}z")
                y -= height
    for broker, parts in bars.items():
        if parts:
            yield Shape("path", {"class": f"bar {lines[broker].kind}", "d": "".join(parts)})


def _rate_y(amount: float, top: float) -> float:
    return _RATE_TOP + _RATE_HEIGHT * (1 - amount / top)
