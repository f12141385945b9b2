"""The chart of the busiest hours of the week: a cell for each hour. Pure."""

from collections.abc import Iterator
from typing import Any, Final

from cluster.analytics.capacity import words
from cluster.analytics.capacity.growth import BusyHours
from cluster.analytics.reports.svg_shapes import Plot, Shape, text

_TOP: Final = 18
_ROW: Final = 26
_HOURS: Final = 24
_KEPT_WHEN_NARROW: Final = 6
"""One hour in so many has its label on a narrow screen."""
_FAINTEST: Final = 0.06
_DARKEST: Final = 0.94


def plot(hours: BusyHours) -> Plot:
    """A row for each day, whose cells are the darker the more traffic there is."""
    shapes = list(_headings(hours))
    highest = hours.busiest[0].bytes_per_s if hours.busiest else 1.0
    for at, (day, rates) in enumerate(zip(hours.days, hours.bytes_per_s, strict=True)):
        for hour, rate in enumerate(rates):
            shapes.append(_cell(at, hour, day, rate, highest))
    data: dict[str, Any] = {
        "title": "Busiest hours of the week",
        "table": {
            "columns": ["day", *(f"{hour}:00, B/s" for hour in range(_HOURS))],
            "rows": [
                [day, *(None if rate is None else round(rate) for rate in rates)]
                for day, rates in zip(hours.days, hours.bytes_per_s, strict=True)
            ],
        },
    }
    label = "Traffic of each hour of the week, in UTC"
    return Plot(_TOP + _ROW * len(hours.days), label, shapes, (), data, is_heat=True)


def _headings(hours: BusyHours) -> Iterator[Shape]:
    for hour in range(_HOURS):
        kind = "tick" if hour % _KEPT_WHEN_NARROW == 0 else "tick wide"
        yield text(kind, "middle", f"{100 * (hour + 0.5) / _HOURS:.2f}%", _TOP - 6, f"{hour}")
    for at, day in enumerate(hours.days):
        yield text("tick", "end", "-8", _TOP + _ROW * (at + 0.5) + 4, day[:3])


def _cell(at: int, hour: int, day: str, rate: float | None, highest: float) -> Shape:
    place = {
        "x": f"{100 * hour / _HOURS:.3f}%",
        "y": f"{_TOP + _ROW * at}",
        "width": f"{100 / _HOURS:.3f}%",
        "height": f"{_ROW}",
    }
    if rate is None:
        return Shape("rect", {"class": "none", **place}, tip=f"{day} {hour:02}:00: no history")
    share = rate / highest if highest else 0.0
    opacity = f"{_FAINTEST + (_DARKEST - _FAINTEST) * share:.2f}"
    tip = f"{day} {hour:02}:00: {words.per_second(rate)}"
    return Shape("rect", {"class": "cell", "fill-opacity": opacity, **place}, tip=tip)
