"""A plot of rate against limit in characters, with the throttle time below it. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from cluster.analytics.reports.usage_history import ClientUsage, Point, Span, busiest
from cluster.views.quantities import clock, duration, number, rate_unit

Line = list[tuple[str, str]]
"""Pieces of text, each with a style of rich, "" for none."""

_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_LIMIT: Final = "╌"
_HEIGHT: Final = 6
_LABEL_WIDTH: Final = 11
_COLUMN_MAX: Final = 4
"""With few windows, each is drawn up to this many characters wide."""
_STYLES: Final = ((1.0, "red"), (0.8, "yellow"), (0.0, "green"))
"""The color of a bar by the share of the limit that it reaches."""


def plot(usage: ClientUsage, span: Span, columns: int) -> list[Line]:
    """The busiest broker's rate in each window, the limit, and all brokers' throttle time."""
    points = _resampled(busiest(usage), span, columns)
    broad = max(1, min(_COLUMN_MAX, columns // len(points)))
    limits = [point.limit for point in points if point and point.limit is not None]
    highest = max([point.rate for point in points if point] + limits)
    divisor, unit = rate_unit(usage.quota, highest)
    top = highest * 1.1 or 1.0
    limit_row = _row(limits[-1], top) if limits else None
    rows = [_row(point.limit, top) if point else None for point in points]
    lines: list[Line] = [[(f"{unit:>{_LABEL_WIDTH}}", "dim")]]
    for row in reversed(range(_HEIGHT)):
        label = number(limits[-1] / divisor) if row == limit_row else ""
        cells = [
            _cell(point, row, top, row == its_limit, broad)
            for point, its_limit in zip(points, rows, strict=True)
        ]
        lines.append([(f"{label:>{_LABEL_WIDTH}} ┤", "dim"), *cells])
    lines.append([(f"{'0':>{_LABEL_WIDTH}} ┼{'─' * broad * len(points)}", "dim")])
    throttles = [point.throttle_ms if point else 0.0 for point in points]
    if any(throttles):
        lines.append(
            [
                (f"{'throttle':>{_LABEL_WIDTH}}  ", "dim"),
                ("".join(mark * broad for mark in sparkline(throttles)), "magenta"),
                (f"  at most {duration(max(throttles))} per window", "dim"),
            ]
        )
    lines.append([(" " * (_LABEL_WIDTH + 2) + _times(span, broad * len(points)), "dim")])
    return lines


def _resampled(merged: Mapping[int, Point], span: Span, columns: int) -> list[Point | None]:
    """One point per column, each for as many windows as necessary; None without data."""
    count = (span.end_s - span.first_s) // span.width_s
    step = -(-count // columns) * span.width_s
    made: list[Point | None] = []
    for start in range(span.first_s, span.end_s, step):
        inside = [
            merged[time] for time in range(start, start + step, span.width_s) if time in merged
        ]
        made.append(_highest(inside, start) if inside else None)
    return made


def _row(limit: float | None, top: float) -> int | None:
    return None if limit is None else min(int(limit / top * _HEIGHT), _HEIGHT - 1)


def _highest(points: Sequence[Point], start_s: int) -> Point:
    peak = max(points, key=lambda point: point.rate)
    return Point(start_s, peak.rate, peak.limit, max(point.throttle_ms for point in points))


def _cell(point: Point | None, row: int, top: float, is_limit: bool, broad: int) -> tuple[str, str]:
    filled = 0 if point is None else round((point.rate / top * _HEIGHT - row) * 8)
    if filled <= 0 or point is None:
        return (_LIMIT * broad, "red") if is_limit else (" " * broad, "")
    share = point.rate / point.limit if point.limit else 0.0
    style = next(style for least, style in _STYLES if share >= least)
    return _EIGHTHS[min(filled, 8)] * broad, style


def sparkline(amounts: Sequence[float]) -> str:
    """A character for each amount, as high as its share of the largest; blanks without any."""
    most = max(amounts, default=0) or 1
    return "".join(_EIGHTHS[math.ceil(amount / most * 8)] for amount in amounts)


def _times(span: Span, columns: int) -> str:
    first, last = clock(span.first_s), clock(span.end_s)
    if columns < len(first) + len(last) + 1:
        return f"{first} - {last} UTC"
    return f"{first}{last:>{columns - len(first)}} UTC"
