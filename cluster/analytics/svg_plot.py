"""An SVG plot of one client's rate against its limit, per broker, with the throttle time below it.

Pure; colours are classes, which the page's style sheet defines for light and dark.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from cluster.analytics.quantities import (
    clock,
    duration,
    number,
    rate,
    rate_unit,
    round_steps,
    time_steps,
)
from cluster.analytics.usage_history import Point, Span, Usage

COLOURS: Final = 6
"""Brokers beyond take the colours of the first ones again."""

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


def plot(usage: Usage, span: Span) -> str:
    """One `<svg>` element."""
    points = [point for series in usage.series.values() for point in series]
    highest = max(max(point.rate, point.limit or 0.0) for point in points)
    divisor, unit = rate_unit(usage.quota, highest)
    marks = round_steps(highest * 1.05 / divisor, _RATE_STEPS)
    label = f"{usage.name}: {usage.quota} rate against its limit, and throttle time"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">',
        *_rate_axis(marks, f"rate, {unit}"),
        *_time_axis(span),
    ]
    for broker in sorted(usage.series):
        parts += _rate_line(broker, usage.series[broker], span, divisor, marks[-1])
    parts += _limit_line(usage, span, divisor, marks[-1])
    parts += _throttle_bars(usage, span)
    parts.append("</svg>")
    return "\n".join(parts)


def colour(broker: int) -> str:
    """The class of a broker's line."""
    return f"broker{broker % COLOURS}"


def _rate_axis(marks: Sequence[float], title: str) -> Iterator[str]:
    yield from _axis(marks, [_plain(mark) for mark in marks], _RATE_TOP, _RATE_HEIGHT, title)


def _axis(
    marks: Sequence[float], labels: Sequence[str], top: int, height: int, title: str
) -> Iterator[str]:
    """Horizontal grid lines with numbers, and what they measure."""
    for mark, label in zip(marks, labels, strict=True):
        y = top + height * (1 - mark / marks[-1])
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" text-anchor="end" x="{_LEFT - 8}" y="{y + 4:.1f}">{label}</text>'
    middle = top + height / 2
    yield (
        f'<text class="title" text-anchor="middle" transform="translate(14 {middle:.0f})'
        f' rotate(-90)">{escape(title)}</text>'
    )


def _time_axis(span: Span) -> Iterator[str]:
    bottom = _THROTTLE_TOP + _THROTTLE_HEIGHT
    for time_s in time_steps(span.first_s, span.end_s, _TIME_STEPS):
        x = _x(span, time_s)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_RATE_TOP}" y2="{bottom}"/>'
        text = clock(time_s)
        yield f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{bottom + 17}">{text}</text>'
    x = (_LEFT + _WIDTH - _RIGHT) / 2
    yield f'<text class="title" text-anchor="middle" x="{x}" y="{bottom + 35}">time, UTC</text>'


def _rate_line(
    broker: int, points: Sequence[Point], span: Span, divisor: float, top: float
) -> Iterator[str]:
    """A step per window; the line ends where the client was silent."""
    steps = []
    end_s = None
    for point in points:
        y = _rate_y(point.rate / divisor, top)
        move = "L" if point.start_s == end_s else "M"
        end_s = point.start_s + span.width_s
        steps.append(f"{move}{_x(span, point.start_s):.1f} {y:.1f}H{_x(span, end_s):.1f}")
    yield f'<path class="rate {colour(broker)}" d="{"".join(steps)}"/>'


def _limit_line(usage: Usage, span: Span, divisor: float, top: float) -> Iterator[str]:
    """The limit over time: it is the same on every broker, and may change."""
    limits = {
        point.start_s: point.limit
        for series in usage.series.values()
        for point in series
        if point.limit is not None
    }
    steps: list[str] = []
    times = sorted(limits)
    for index, start_s in enumerate(times):
        limit = limits[start_s]
        is_last = index + 1 == len(times)
        end_s = start_s + span.width_s if is_last else times[index + 1]
        y = _rate_y(limit / divisor, top)
        move = "L" if steps else "M"
        steps.append(f"{move}{_x(span, start_s):.1f} {y:.1f}H{_x(span, end_s):.1f}")
    if steps:
        yield f'<path class="limit" d="{"".join(steps)}"/>'


def _throttle_bars(usage: Usage, span: Span) -> Iterator[str]:
    """Bars of one window each, one broker upon the other."""
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


def _never_throttled() -> Iterator[str]:
    y = _THROTTLE_TOP + _THROTTLE_HEIGHT
    yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
    x = (_LEFT + _WIDTH - _RIGHT) / 2
    middle = _THROTTLE_TOP + _THROTTLE_HEIGHT / 2 + 4
    yield f'<text class="tick" text-anchor="middle" x="{x}" y="{middle}">never throttled</text>'


def _bar(
    broker: int, start_s: int, below_ms: float, amount_ms: float, top_ms: float, span: Span
) -> str:
    full = _x(span, start_s + span.width_s) - _x(span, start_s)
    x = _x(span, start_s) + full * (1 - _BAR_SHARE) / 2
    height = _THROTTLE_HEIGHT * amount_ms / top_ms
    y = _THROTTLE_TOP + _THROTTLE_HEIGHT * (1 - below_ms / top_ms) - height
    return (
        f'<rect class="bar {colour(broker)}" x="{x:.1f}" y="{y:.1f}"'
        f' width="{full * _BAR_SHARE:.1f}" height="{height:.1f}"/>'
    )


def _tip(usage: Usage, start_s: int, stack: Iterable[tuple[int, Point]], span: Span) -> str:
    """An invisible column over a window that says its numbers under the pointer."""
    lines = [f"{clock(start_s, with_day=True)} UTC, {span.width_s} s"]
    for broker, point in stack:
        limit = f" of {rate(usage.quota, point.limit)}" if point.limit is not None else ""
        throttled = f", throttled {duration(point.throttle_ms)}" if point.throttle_ms else ""
        lines.append(f"broker {broker}: {rate(usage.quota, point.rate)}{limit}{throttled}")
    x, end = _x(span, start_s), _x(span, start_s + span.width_s)
    bottom = _THROTTLE_TOP + _THROTTLE_HEIGHT
    return (
        f'<rect class="tip" x="{x:.1f}" y="{_RATE_TOP}" width="{end - x:.1f}"'
        f' height="{bottom - _RATE_TOP}"><title>{escape(chr(10).join(lines))}</title></rect>'
    )


def _rate_y(amount: float, top: float) -> float:
    return _RATE_TOP + _RATE_HEIGHT * (1 - amount / top)


def _plain(mark: float) -> str:
    return f"{mark:g}" if mark < 1000 else number(mark)


def _x(span: Span, time_s: float) -> float:
    share = (time_s - span.first_s) / (span.end_s - span.first_s)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
