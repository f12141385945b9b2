"""The shapes of a plot of one client's rate against its limit, per broker, and its throttle time.

Pure; `plot.svg` writes them as SVG. Colours are classes, which the page's style sheet defines for
light and dark.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.analytics.reports.usage_history import Point, Span, Usage
from cluster.views.quantities import (
    clock,
    duration,
    number,
    rate,
    rate_unit,
    round_steps,
    time_steps,
)

COLOURS: Final = 6
"""The number of colours; further brokers reuse them from the first on."""

_WIDTH: Final = 860
_LEFT: Final = 74
_RIGHT: Final = 34
_RATE_TOP: Final = 14
_RATE_HEIGHT: Final = 170
_THROTTLE_TOP: Final = 222
_THROTTLE_HEIGHT: Final = 56
_HEIGHT: Final = 318
_RATE_STEPS: Final = 4
_THROTTLE_STEPS: Final = 2
_TIME_STEPS: Final = 9
_BAR_SHARE: Final = 0.8


class Shape(NamedTuple):
    """One SVG element; `tip` is its tooltip."""

    tag: str
    attributes: Mapping[str, str]
    text: str = ""
    tip: str = ""


class Plot(NamedTuple):
    """The data for the template `plot.svg`, not yet escaped."""

    width: int
    height: int
    label: str
    shapes: Sequence[Shape]


def plot(usage: Usage, span: Span) -> Plot:
    """A plot with both axes, a line per broker, the limit, and the throttle time as bars."""
    points = [point for series in usage.series.values() for point in series]
    highest = max(max(point.rate, point.limit or 0.0) for point in points)
    divisor, unit = rate_unit(usage.quota, highest)
    marks = round_steps(highest * 1.05 / divisor, _RATE_STEPS)
    shapes = [*_rate_axis(marks, f"rate, {unit}"), *_time_axis(span)]
    shapes += [
        _rate_line(broker, usage.series[broker], span, divisor, marks[-1])
        for broker in sorted(usage.series)
    ]
    shapes += _limit_line(usage, span, divisor, marks[-1])
    shapes += _throttle_bars(usage, span)
    label = f"{usage.name}: {usage.quota} rate against its limit, and throttle time"
    return Plot(_WIDTH, _HEIGHT, label, shapes)


def colour(broker: int) -> str:
    """The class of a broker's line."""
    return f"broker{broker % COLOURS}"


def _rate_axis(marks: Sequence[float], title: str) -> Iterator[Shape]:
    yield from _axis(marks, [_plain(mark) for mark in marks], _RATE_TOP, _RATE_HEIGHT, title)


def _axis(
    marks: Sequence[float], labels: Sequence[str], top: int, height: int, title: str
) -> Iterator[Shape]:
    """Horizontal grid lines with numbers, and what they measure."""
    for mark, label in zip(marks, labels, strict=True):
        y = top + height * (1 - mark / marks[-1])
        yield _grid_line(_LEFT, _WIDTH - _RIGHT, y, y)
        yield _text("tick", "end", _LEFT - 8, y + 4, label)
    turned = f"translate(14 {top + height / 2:.0f}) rotate(-90)"
    attributes = {"class": "title", "text-anchor": "middle", "transform": turned}
    yield Shape("text", attributes, title)


def _time_axis(span: Span) -> Iterator[Shape]:
    bottom = _THROTTLE_TOP + _THROTTLE_HEIGHT
    for time_s in time_steps(span.first_s, span.end_s, _TIME_STEPS):
        x = _x(span, time_s)
        yield _grid_line(x, x, _RATE_TOP, bottom)
        yield _text("tick", "middle", x, bottom + 17, clock(time_s))
    yield _text("title", "middle", (_LEFT + _WIDTH - _RIGHT) / 2, bottom + 35, "time, UTC")


def _rate_line(
    broker: int, points: Sequence[Point], span: Span, divisor: float, top: float
) -> Shape:
    """A horizontal step per window, with gaps where the client was inactive."""
    steps = []
    end_s = None
    for point in points:
        y = _rate_y(point.rate / divisor, top)
        move = "L" if point.start_s == end_s else "M"
        end_s = point.start_s + span.width_s
        steps.append(f"{move}{_x(span, point.start_s):.1f} {y:.1f}H{_x(span, end_s):.1f}")
    return Shape("path", {"class": f"rate {colour(broker)}", "d": "".join(steps)})


def _limit_line(usage: Usage, span: Span, divisor: float, top: float) -> Iterator[Shape]:
    """The limit over time: it is the same on every broker, and may change. With gaps where there is
    no window.
    """
    limits = {
        point.start_s: point.limit
        for series in usage.series.values()
        for point in series
        if point.limit is not None
    }
    steps: list[str] = []
    end_s = None
    for start_s in sorted(limits):
        y = _rate_y(limits[start_s] / divisor, top)
        move = "L" if start_s == end_s else "M"
        end_s = start_s + span.width_s
        steps.append(f"{move}{_x(span, start_s):.1f} {y:.1f}H{_x(span, end_s):.1f}")
    if steps:
        yield Shape("path", {"class": "limit", "d": "".join(steps)})


def _throttle_bars(usage: Usage, span: Span) -> Iterator[Shape]:
    """One bar per window, in which the brokers' throttle times are stacked."""
    stacks: dict[int, list[tuple[int, Point]]] = {}
    for broker in sorted(usage.series):
        for point in usage.series[broker]:
            stacks.setdefault(point.start_s, []).append((broker, point))
    highest = max(sum(point.throttle_ms for _, point in stack) for stack in stacks.values())
    marks = round_steps(highest, _THROTTLE_STEPS) if highest else [0.0]
    labels = [duration(mark).replace(".0 ", " ") for mark in marks]
    if highest:
        yield from _axis(marks, labels, _THROTTLE_TOP, _THROTTLE_HEIGHT, "throttle")
    else:
        yield from _never_throttled()
    for start_s, stack in stacks.items():
        below = 0.0
        for broker, point in stack:
            if point.throttle_ms:
                yield _bar(broker, start_s, below, point.throttle_ms, marks[-1], span)
                below += point.throttle_ms
        yield _tip(usage, start_s, stack, span)


def _never_throttled() -> Iterator[Shape]:
    y = _THROTTLE_TOP + _THROTTLE_HEIGHT
    yield _grid_line(_LEFT, _WIDTH - _RIGHT, y, y)
    middle = _THROTTLE_TOP + _THROTTLE_HEIGHT / 2 + 4
    yield _text("tick", "middle", (_LEFT + _WIDTH - _RIGHT) / 2, middle, "never throttled")


def _bar(
    broker: int, start_s: int, below_ms: float, amount_ms: float, top_ms: float, span: Span
) -> Shape:
    full = _x(span, start_s + span.width_s) - _x(span, start_s)
    x = _x(span, start_s) + full * (1 - _BAR_SHARE) / 2
    height = _THROTTLE_HEIGHT * amount_ms / top_ms
    y = _THROTTLE_TOP + _THROTTLE_HEIGHT * (1 - below_ms / top_ms) - height
    return _rectangle(f"bar {colour(broker)}", x, y, full * _BAR_SHARE, height)


def _tip(usage: Usage, start_s: int, stack: Iterable[tuple[int, Point]], span: Span) -> Shape:
    """An invisible rectangle over a window, whose tooltip shows the window's numbers."""
    lines = [f"{clock(start_s, with_day=True)} UTC, {span.width_s} s"]
    for broker, point in stack:
        limit = f" of {rate(usage.quota, point.limit)}" if point.limit is not None else ""
        throttled = f", throttled {duration(point.throttle_ms)}" if point.throttle_ms else ""
        lines.append(f"broker {broker}: {rate(usage.quota, point.rate)}{limit}{throttled}")
    x, end = _x(span, start_s), _x(span, start_s + span.width_s)
    bottom = _THROTTLE_TOP + _THROTTLE_HEIGHT
    column = _rectangle("tip", x, _RATE_TOP, end - x, bottom - _RATE_TOP)
    return column._replace(tip="\n".join(lines))


def _grid_line(x1: float, x2: float, y1: float, y2: float) -> Shape:
    ends = {"x1": x1, "x2": x2, "y1": y1, "y2": y2}
    return Shape("line", {"class": "grid", **{name: f"{at:.1f}" for name, at in ends.items()}})


def _text(kind: str, anchor: str, x: float, y: float, text: str) -> Shape:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    return Shape("text", {"class": kind, "text-anchor": anchor, **place}, text)


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> Shape:
    size = {"x": x, "y": y, "width": width, "height": height}
    return Shape("rect", {"class": kind, **{name: f"{at:.1f}" for name, at in size.items()}})


def _rate_y(amount: float, top: float) -> float:
    return _RATE_TOP + _RATE_HEIGHT * (1 - amount / top)


def _plain(mark: float) -> str:
    return f"{mark:g}" if mark < 1000 else number(mark)


def _x(span: Span, time_s: float) -> float:
    share = (time_s - span.first_s) / (span.end_s - span.first_s)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
