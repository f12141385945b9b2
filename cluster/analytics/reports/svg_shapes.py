"""What the charts of the reports share: shapes, axes, lines and what a script reads. Pure.

A chart is as wide as its place on the page: positions in time are percentages, and heights are
pixels. Lines cannot have percentages, so they are in a part that is stretched, 1,000 wide. Colors
and dashes are classes, which the page's style sheet defines for light and dark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.views.quantities import number, time_steps

STRETCHED: Final = 1000
"""The width of the part that is stretched."""
LABEL_HEIGHT: Final = 13
"""Texts closer than this would touch."""
STYLES: Final = 6
"""Colors with their dashes; further lines reuse them in the same order."""
_TIME_STEPS: Final = 9
_KEPT_WHEN_NARROW: Final = 4
"""One time in so many has its label on a narrow screen."""
_MARKERS: Final = (
    "M-4 0A4 4 0 1 1 4 0A4 4 0 1 1-4 0Z",
    "M-4-4H4V4H-4Z",
    "M0-5L5 4H-5Z",
    "M0-5.5L5.5 0L0 5.5L-5.5 0Z",
    "M-4-4H4L0 5Z",
)
"""Circle, square, triangle, diamond, and a triangle that points down."""
_MARKS_PER_LINE: Final = 6
_WHOLE_FROM: Final = 1000


class Shape(NamedTuple):
    """One SVG element; `tip` is its tooltip."""

    tag: str
    attributes: Mapping[str, str]
    text: str = ""
    tip: str = ""
    inner: Sequence["Shape"] = ()


class Line(NamedTuple):
    """How the lines, bars and marks of a series look."""

    style: str
    """The CSS class of its color and dashes."""
    key: str
    """A CSS class that no other series of the chart has."""
    marker: str = ""
    """The form of its marks, as the attribute `d` of a path."""

    @property
    def kind(self) -> str:
        return f"{self.style} {self.key}"


class Entry(NamedTuple):
    """One line of a legend."""

    line: Line
    name: str


class Plot(NamedTuple):
    """The data for the template `chart.html`, not yet escaped."""

    height: int
    label: str
    shapes: Sequence[Shape]
    """Those that keep their form."""
    legend: Sequence[Entry]
    data: Mapping[str, Any]
    """What the page's script reads (`report.js`): for the pointer, the table and the CSV file."""
    paths: Sequence[Shape] = ()
    """Those that are stretched; they are drawn below the others."""
    is_heat: bool = False


class Values(NamedTuple):
    """A series as the script reads it."""

    name: str
    """Values of the same name are told together."""
    line: str
    """The key of its line."""
    column: str
    """Its heading in a table."""
    unit: str
    divisor: float
    values: Sequence[float | None]
    """Before the division."""
    before: str = ""
    """A word before the value."""

    def as_json(self) -> dict[str, Any]:
        """Large values are whole."""
        rounded = [None if each is None else _rounded(each) for each in self.values]
        return {**self._asdict(), "values": rounded}


def _rounded(value: float) -> float | int:
    short = round(value, 3)
    return round(value) if abs(value) >= _WHOLE_FROM or short == int(short) else short


class TimeScale(NamedTuple):
    """The period of the horizontal axis, in seconds since 1970."""

    first_s: int
    end_s: int

    def share(self, time_s: float) -> float:
        """The position of a time, 0 to 1; a time outside of the period is drawn at the edge."""
        return min(1.0, max(0.0, (time_s - self.first_s) / (self.end_s - self.first_s)))

    def percent(self, time_s: float) -> str:
        """The position of a time on the chart."""
        return f"{100 * self.share(time_s):.2f}%"

    def axis(self, top: float, bottom: float, label: Callable[[int], str]) -> Iterator[Shape]:
        """Vertical grid lines from top to bottom, and a label below each."""
        for at, time_s in enumerate(time_steps(self.first_s, self.end_s, _TIME_STEPS)):
            x = self.percent(time_s)
            yield Shape("line", {"class": "grid", "x1": x, "x2": x, **_ends(top, bottom)})
            kind = "tick" if at % _KEPT_WHEN_NARROW == 0 else "tick wide"
            yield text(kind, "middle", x, bottom + 17, label(time_s))

    def steps(self, kind: str, values: Iterable[tuple[int, int, float]]) -> Shape:
        """A line with a horizontal step for each begin, end and height, and gaps between those that
        do not follow one another.
        """
        parts = []
        before: tuple[int, str] | None = None
        for begin_s, end_s, y in values:
            begin, end = (f"{STRETCHED * self.share(time_s):.1f}" for time_s in (begin_s, end_s))
            height = f"{y:.1f}"
            if before is None or before[0] != begin_s:
                parts.append(f"M{begin} {height}")
            elif before[1] != height:
                parts.append(f"V{height}")
            parts.append(f"H{end}")
            before = end_s, height
        return Shape("path", {"class": kind, "d": "".join(parts)})


def line(number: int, place: int) -> Line:
    """The look of the series with this number; `place` is that in its chart."""
    return Line(f"s{number % STYLES}", f"k{place}", _MARKERS[number % len(_MARKERS)])


def marks(of: Line, place: int, lines: int, points: Sequence[tuple[str, float]]) -> Iterator[Shape]:
    """Some marks on a line of these positions, where those of the `lines` others are not."""
    every = max(lines, len(points) // _MARKS_PER_LINE)
    for x, y in points[every * place // lines :: every]:
        path = Shape("path", {"d": of.marker})
        yield Shape("svg", {"class": f"mark {of.kind}", "x": x, "y": f"{y:.1f}"}, inner=(path,))


def end_labels(labels: Sequence[tuple[str, str, float]], top: float, bottom: float) -> list[Shape]:
    """The names of lines at their ends: of each its class, its name and the height of its end.

    The last word of a name is all that a narrow screen shows. There are none where there is no room
    for all of them.
    """
    ordered = sorted(labels, key=lambda label: label[2])
    if LABEL_HEIGHT * (len(ordered) - 1) > bottom - top:
        return []
    shapes = []
    heights = spread([y for _, _, y in ordered], top, bottom)
    for (kind, name, _), y in zip(ordered, heights, strict=True):
        *first, last = name.rsplit(" ", 1)
        words = [Shape("tspan", {"class": "wide"}, f"{word} ") for word in first]
        at = {"class": f"end {kind}", "x": "100%", "dx": "7", "y": f"{y + 4:.1f}"}
        shapes.append(Shape("text", at, inner=(*words, Shape("tspan", {}, last))))
    return shapes


def spread(heights: Sequence[float], top: float, bottom: float) -> list[float]:
    """These heights, in order, moved so that texts there do not touch."""
    found: list[float] = []
    for y in heights:
        found.append(max(y, top, found[-1] + LABEL_HEIGHT if found else top))
    highest = bottom
    for at in reversed(range(len(found))):
        found[at] = min(found[at], highest)
        highest = found[at] - LABEL_HEIGHT
    return found


def value_axis(
    marks: Sequence[float],
    top: int,
    height: int,
    title: str,
    labels: Sequence[str] | None = None,
) -> Iterator[Shape]:
    """Horizontal grid lines with numbers (or `labels`), and what they measure."""
    shown = labels or [f"{mark:g}" if mark < 1000 else number(mark) for mark in marks]
    for mark, label in zip(marks, shown, strict=True):
        y = top + height * (1 - mark / marks[-1])
        yield Shape("line", {"class": "grid", "x1": "0", "x2": "100%", **_ends(y, y)})
        yield text("tick", "end", "-8", y + 4, label)
    yield text("title", "start", "0", top - 8, title)


def text(kind: str, anchor: str, x: str, y: float, words: str) -> Shape:
    """A text at a point."""
    place = {"x": x, "y": f"{y:.1f}"}
    return Shape("text", {"class": kind, "text-anchor": anchor, **place}, words)


def _ends(y1: float, y2: float) -> dict[str, str]:
    return {"y1": f"{y1:.1f}", "y2": f"{y2:.1f}"}
