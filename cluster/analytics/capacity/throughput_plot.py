"""The chart of throughput and p99 over time, with marks of events. Pure."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.analytics.capacity.report import EventRow, Events, Series
from cluster.analytics.capacity.trends import DAY_S
from cluster.analytics.reports.svg_shapes import (
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
from cluster.model.printable import one_line
from cluster.views.quantities import clock, rate_unit, round_steps

_RATE_TOP: Final = 34
_RATE_HEIGHT: Final = 170
_P99_TOP: Final = 240
_P99_HEIGHT: Final = 56
_BOTTOM: Final = _P99_TOP + _P99_HEIGHT
_HEIGHT: Final = _BOTTOM + 24
_STEPS: Final = 4
_P99_STEPS: Final = 2
_MARKS_MAX: Final = 300
"""The events that share a mark are those within this part of the period."""
_TIP_LINES: Final = 12
_SECONDS_BELOW_S: Final = 600
"""Shorter periods have labels at parts of a minute."""
_LABEL: Final = "Bytes in and out over time, p99 of Produce, and events"
_FLAG: Final = "M0-5L5 0L0 5L-5 0Z"


class _Panel(NamedTuple):
    """A part of the chart with an axis of its own."""

    divisor: float
    unit: str
    highest: float
    """The end of its axis."""
    top: int
    height: int

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.divisor / self.highest)


class _Row(NamedTuple):
    """A line of the chart."""

    name: str
    line: Line
    values: Sequence[float | None]
    panel: _Panel


def plot(series: Series, events: Events) -> Plot:
    """Bytes in and out, the p99 below them, and a vertical line for each event."""
    rates = [*series.bytes_in_per_s, *series.bytes_out_per_s]
    highest = max((rate for rate in rates if rate is not None), default=0.0)
    divisor, unit = rate_unit("produce", highest)
    steps = round_steps(highest * 1.05 / divisor, _STEPS)
    slowest = max((each for each in series.produce_p99_ms if each is not None), default=0.0)
    slow_steps = round_steps(slowest, _P99_STEPS)
    scale = TimeScale(series.start_s[0], series.start_s[-1] + series.step_s)
    rates_panel = _Panel(divisor, unit, steps[-1], _RATE_TOP, _RATE_HEIGHT)
    p99_panel = _Panel(1.0, "ms", slow_steps[-1], _P99_TOP, _P99_HEIGHT)
    rows = (
        _Row("bytes in", line(0, 0), series.bytes_in_per_s, rates_panel),
        _Row("bytes out", line(1, 1), series.bytes_out_per_s, rates_panel),
        _Row("p99 of Produce", line(2, 2), series.produce_p99_ms, p99_panel),
    )
    shapes = [
        *value_axis(steps, _RATE_TOP, _RATE_HEIGHT, f"bytes of clients, {unit}"),
        *value_axis(slow_steps, _P99_TOP, _P99_HEIGHT, "p99 of Produce, ms"),
        *scale.axis(_RATE_TOP, _BOTTOM, partial(_time_label, scale)),
        *_event_marks(scale, events.rows),
    ]
    paths = []
    labels: dict[_Panel, list[tuple[str, str, float]]] = {}
    for at, row in enumerate(rows):
        known = [
            (start_s, row.panel.y(value))
            for start_s, value in zip(series.start_s, row.values, strict=True)
            if value is not None
        ]
        stepped = ((start_s, start_s + series.step_s, y) for start_s, y in known)
        paths.append(scale.steps(f"line {row.line.kind}", stepped))
        middles = [(scale.percent(start_s + series.step_s / 2), y) for start_s, y in known]
        shapes += marks(row.line, at, len(rows), middles)
        if known:
            name = row.name.removesuffix(" of Produce")
            labels.setdefault(row.panel, []).append((row.line.kind, name, known[-1][1]))
    for panel in (rates_panel, p99_panel):
        if panel in labels:
            shapes += end_labels(labels[panel], panel.top, panel.top + panel.height)
        else:
            shapes.append(text("tick", "middle", "50%", panel.top + panel.height / 2, "no data"))
    data: dict[str, Any] = {
        "title": "Throughput and events",
        "first": series.start_s[0],
        "step": series.step_s,
        "series": [_values(row).as_json() for row in rows],
        "events": [[event.start_s, _event_text(event)] for event in events.rows],
    }
    legend = [Entry(row.line, row.name) for row in rows]
    return Plot(_HEIGHT, _LABEL, shapes, legend, data, paths)


def _values(row: _Row) -> Values:
    unit = row.panel.unit
    column = f"{row.name}, {'ms' if unit == 'ms' else 'B/s'}"
    return Values(row.name, row.line.key, column, unit, row.panel.divisor, row.values)


def _time_label(scale: TimeScale, time_s: int) -> str:
    whole, span_s = clock(time_s, with_day=True), scale.end_s - scale.first_s
    if span_s > 2 * DAY_S:
        return whole[5:10]
    return whole[11:16] if span_s >= _SECONDS_BELOW_S else whole[11:]


def _event_text(event: EventRow) -> str:
    return f"{clock(event.start_s, with_day=True)} {one_line(event.event)}: {event.text}"


def _event_marks(scale: TimeScale, events: Sequence[EventRow]) -> Iterator[Shape]:
    """One mark for all events at about the same place; its tooltip lists them."""
    together: list[tuple[float, list[EventRow]]] = []
    for event in events:
        x = scale.share(event.start_s)
        if together and x - together[-1][0] < 1 / _MARKS_MAX:
            together[-1][1].append(event)
        else:
            together.append((x, [event]))
    for _, found in together:
        lines = [_event_text(event) for event in found[:_TIP_LINES]]
        if len(found) > _TIP_LINES:
            lines.append(f"{len(found) - _TIP_LINES:,} more")
        x_percent = scale.percent(found[0].start_s)
        ends = {"x1": x_percent, "x2": x_percent, "y1": f"{_RATE_TOP - 4}", "y2": f"{_BOTTOM}"}
        yield Shape("line", {"class": "event", **ends})
        flag = Shape("path", {"class": "flag", "d": _FLAG}, tip="\n".join(lines))
        yield Shape("svg", {"x": x_percent, "y": f"{_RATE_TOP - 28}"}, inner=(flag,))
