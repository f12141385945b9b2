"""The shapes of a plot of throughput and p99 over time, with marks where something happened. Pure.

`plot.svg` of the reports writes them as SVG; colours are classes of its style sheet.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.analytics.capacity.report import Event, Events, Series
from cluster.analytics.capacity.trends import DAY_S
from cluster.analytics.reports.svg_plot import Plot, Shape
from cluster.views.quantities import clock, number, rate_unit, round_steps, time_steps

_WIDTH: Final = 860
_LEFT: Final = 74
_RIGHT: Final = 34
_RATE_TOP: Final = 24
_RATE_HEIGHT: Final = 170
_P99_TOP: Final = 226
_P99_HEIGHT: Final = 56
_BOTTOM: Final = _P99_TOP + _P99_HEIGHT
_HEIGHT: Final = 322
_STEPS: Final = 4
_P99_STEPS: Final = 2
_TIME_STEPS: Final = 9
_MARK_PX: Final = 3
"""Events that are nearer to each other than this many pixels share a mark."""
_TIP_LINES: Final = 12
LEGEND: Final = (("broker0", "bytes in"), ("broker1", "bytes out"), ("broker2", "p99 of Produce"))
"""Classes of colours, and what they mean."""


def plot(series: Series, events: Events) -> Plot:
    """Both axes, lines of bytes in and out, p99 below, and a vertical line for each event."""
    rates = [*series.bytes_in_per_s, *series.bytes_out_per_s]
    highest = max((rate for rate in rates if rate is not None), default=0.0)
    divisor, unit = rate_unit("produce", highest)
    marks = round_steps(highest * 1.05 / divisor, _STEPS)
    slowest = max((each for each in series.produce_p99_ms if each is not None), default=0.0)
    slow_marks = round_steps(slowest, _P99_STEPS)
    shapes = [
        *_axis(marks, _RATE_TOP, _RATE_HEIGHT, f"bytes, {unit}"),
        *_axis(slow_marks, _P99_TOP, _P99_HEIGHT, "p99, ms"),
        *_time_axis(series),
    ]
    for kind, values in (("broker0", series.bytes_in_per_s), ("broker1", series.bytes_out_per_s)):
        scaled = [None if value is None else value / divisor / marks[-1] for value in values]
        shapes.append(_line(kind, series, scaled, _RATE_TOP, _RATE_HEIGHT))
    p99 = [None if value is None else value / slow_marks[-1] for value in series.produce_p99_ms]
    shapes.append(_line("broker2", series, p99, _P99_TOP, _P99_HEIGHT))
    shapes += _event_marks(series, events.rows)
    return Plot(_WIDTH, _HEIGHT, "Bytes in and out over time, with events", shapes)


def _axis(marks: Sequence[float], top: int, height: int, title: str) -> Iterator[Shape]:
    for mark in marks:
        y = top + height * (1 - mark / marks[-1])
        yield _straight("grid", _LEFT, _WIDTH - _RIGHT, y, y)
        label = f"{mark:g}" if mark < 1000 else number(mark)
        yield _text("tick", "end", _LEFT - 8, y + 4, label)
    turned = f"translate(14 {top + height / 2:.0f}) rotate(-90)"
    yield Shape("text", {"class": "title", "text-anchor": "middle", "transform": turned}, title)


def _time_axis(series: Series) -> Iterator[Shape]:
    first_s, end_s = _span(series)
    for time_s in time_steps(first_s, end_s, _TIME_STEPS):
        x = _x(series, time_s)
        yield _straight("grid", x, x, _RATE_TOP, _BOTTOM)
        whole = clock(time_s, with_day=True)
        label = whole[5:10] if end_s - first_s > 2 * DAY_S else whole[11:16]
        yield _text("tick", "middle", x, _BOTTOM + 17, label)
    yield _text("title", "middle", (_LEFT + _WIDTH - _RIGHT) / 2, _BOTTOM + 35, "time, UTC")


def _line(
    kind: str, series: Series, shares: Sequence[float | None], top: int, height: int
) -> Shape:
    """A horizontal step for each value, with gaps where there is none."""
    steps = []
    is_drawn = False
    for start_s, share in zip(series.start_s, shares, strict=True):
        if share is not None:
            y = top + height * (1 - share)
            x = f"{_x(series, start_s):.1f} {y:.1f}H{_x(series, start_s + series.step_s):.1f}"
            steps.append(f"{'L' if is_drawn else 'M'}{x}")
        is_drawn = share is not None
    return Shape("path", {"class": f"rate {kind}", "d": "".join(steps)})


def _event_marks(series: Series, events: Sequence[Event]) -> Iterator[Shape]:
    """One line for events at the same place, with all of them in its tooltip."""
    together: list[tuple[float, list[Event]]] = []
    for event in events:
        x = _x(series, event.start_s)
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
        yield _straight("event", x, x, _RATE_TOP - 8, _BOTTOM)
        flag = {"x": f"{x - 4:.1f}", "y": f"{_RATE_TOP - 16}", "width": "8", "height": "8"}
        yield Shape("rect", {"class": "flag", **flag}, tip="\n".join(lines))
        column = {"x": f"{x - 4:.1f}", "y": f"{_RATE_TOP}", "width": "8"}
        height = {"height": f"{_BOTTOM - _RATE_TOP}"}
        yield Shape("rect", {"class": "tip", **column, **height}, tip="\n".join(lines))


def _straight(kind: str, x1: float, x2: float, y1: float, y2: float) -> Shape:
    ends = {"x1": x1, "x2": x2, "y1": y1, "y2": y2}
    return Shape("line", {"class": kind, **{name: f"{at:.1f}" for name, at in ends.items()}})


def _text(kind: str, anchor: str, x: float, y: float, text: str) -> Shape:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    return Shape("text", {"class": kind, "text-anchor": anchor, **place}, text)


def _span(series: Series) -> tuple[int, int]:
    return series.start_s[0], series.start_s[-1] + series.step_s


def _x(series: Series, time_s: float) -> float:
    first_s, end_s = _span(series)
    share = min(1.0, max(0.0, (time_s - first_s) / (end_s - first_s)))
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
