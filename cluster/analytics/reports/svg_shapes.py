"""What the SVG plots of the reports share: shapes, axes and lines in steps. Pure.

The template `plot.svg` writes the shapes. Colors are classes, which the page's style sheet defines
for light and dark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.views.quantities import number, time_steps

WIDTH: Final = 860
LEFT: Final = 74
RIGHT: Final = 34
MIDDLE: Final = (LEFT + WIDTH - RIGHT) / 2
_TIME_STEPS: Final = 9


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


class TimeScale(NamedTuple):
    """The period of the horizontal axis, in seconds since 1970."""

    first_s: int
    end_s: int

    def x(self, time_s: float) -> float:
        """The position of a time; a time outside of the period is drawn at the edge."""
        share = (time_s - self.first_s) / (self.end_s - self.first_s)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    def axis(self, top: float, bottom: float, label: Callable[[int], str]) -> Iterator[Shape]:
        """Vertical grid lines from top to bottom, and a label below each."""
        for time_s in time_steps(self.first_s, self.end_s, _TIME_STEPS):
            x = self.x(time_s)
            yield straight("grid", x, x, top, bottom)
            yield text("tick", "middle", x, bottom + 17, label(time_s))
        yield text("title", "middle", MIDDLE, bottom + 35, "time, UTC")

    def steps(self, kind: str, values: Iterable[tuple[int, int, float]]) -> Shape:
        """A line with a horizontal step for each begin, end and height, and gaps between those that
        do not follow one another.
        """
        parts = []
        before_s = None
        for begin_s, end_s, y in values:
            move = "L" if begin_s == before_s else "M"
            parts.append(f"{move}{self.x(begin_s):.1f} {y:.1f}H{self.x(end_s):.1f}")
            before_s = end_s
        return Shape("path", {"class": kind, "d": "".join(parts)})


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
        yield straight("grid", LEFT, WIDTH - RIGHT, y, y)
        yield text("tick", "end", LEFT - 8, y + 4, label)
    turned = f"translate(14 {top + height / 2:.0f}) rotate(-90)"
    yield Shape("text", {"class": "title", "text-anchor": "middle", "transform": turned}, title)


def straight(kind: str, x1: float, x2: float, y1: float, y2: float) -> Shape:
    """A line from one point to another."""
    ends = {"x1": x1, "x2": x2, "y1": y1, "y2": y2}
    return Shape("line", {"class": kind, **{name: f"{at:.1f}" for name, at in ends.items()}})


def text(kind: str, anchor: str, x: float, y: float, words: str) -> Shape:
    """A text at a point."""
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    return Shape("text", {"class": kind, "text-anchor": anchor, **place}, words)


def rectangle(kind: str, x: float, y: float, width: float, height: float) -> Shape:
    """A filled rectangle."""
    size = {"x": x, "y": y, "width": width, "height": height}
    return Shape("rect", {"class": kind, **{name: f"{at:.1f}" for name, at in size.items()}})
