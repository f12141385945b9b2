"""Screens of a terminal as one animated SVG, without scripts: GitHub and PyPI show such pictures.

A strip of all frames moves behind a window by CSS. Each different line is drawn once and used by
the frames that show it. Where nothing is animated the last frame is seen.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Final

COLUMNS: Final = 100
ROWS: Final = 25
_CELL_WIDTH: Final = 8.4
_LINE_HEIGHT: Final = 19
_MARGIN: Final = 16
_BAR: Final = 34
_TITLE: Final = "A terminal: start, throttle, explain, kill, nothing lost"
_DARK: Final = "#6e7681 #ff7b72 #7ee787 #e3b341 #79c0ff #d2a8ff #56d4dd #c9d1d9"
_LIGHT: Final = "#8b949e #ffa198 #aff5b4 #f2cc60 #a5d6ff #e2c5ff #b3f0ff #ffffff"
_COLORS: Final = {
    **dict(enumerate(_DARK.split(), 30)),
    **dict(enumerate(_LIGHT.split(), 90)),
}
_STYLE: Final = re.compile("\x1b\\[([0-9;]*)m")


@dataclass(frozen=True)
class Frame:
    """What is on the screen from a moment on, and how long it stays."""

    at_s: float
    lines: tuple[str, ...]
    least_s: float = 0.0
    most_s: float = 1.0


@dataclass(frozen=True)
class Look:
    """How a piece of text is drawn."""

    color: str | None = None
    is_bold: bool = False
    is_dim: bool = False

    def after(self, codes: str) -> "Look":
        """This look, changed by an escape sequence (SGR)."""
        color, is_bold, is_dim = self.color, self.is_bold, self.is_dim
        for code in [int(each or 0) for each in codes.split(";")]:
            if code == 0:
                color, is_bold, is_dim = None, False, False
            elif code == 1:
                is_bold = True
            elif code == 2:
                is_dim = True
            elif code == 22:
                is_bold, is_dim = False, False
            elif code == 39:
                color = None
            else:
                color = _COLORS.get(code, color)
        return Look(color, is_bold, is_dim)

    @property
    def attributes(self) -> str:
        """The attributes of an element `tspan`."""
        fill = f' fill="{self.color}"' if self.color else ""
        weight = ' font-weight="bold"' if self.is_bold else ""
        return fill + weight + (' opacity=".65"' if self.is_dim else "")


def pieces_of(line: str) -> Iterator[tuple[int, str, Look]]:
    """The words of a line with their columns and looks; runs of spaces only move the column."""
    cells: list[tuple[str, Look]] = []
    look = Look()
    position = 0
    for found in _STYLE.finditer(line):
        cells += [(each, look) for each in line[position : found.start()]]
        look = look.after(found.group(1))
        position = found.end()
    cells += [(each, look) for each in line[position:]]
    column = 0
    for drawn, same in groupby(cells, lambda cell: cell[1]):
        text = "".join(character for character, _ in same)
        for word in re.finditer(r"\S+(?: \S+)*", text):
            yield column + word.start(), word.group(), drawn
        column += len(text)


def draw(frames: Sequence[Frame], end_s: float) -> str:
    """The picture, which begins again `end_s` after its last frame."""
    height = ROWS * _LINE_HEIGHT
    whole_s = frames[-1].at_s + end_s
    names: dict[str, str] = {}
    strip = []
    for number, frame in enumerate(frames):
        for row, line in enumerate(frame.lines):
            if next(pieces_of(line), None) is None:
                continue
            name = names.setdefault(line, f"l{len(names)}")
            strip.append(f'<use href="#{name}" y="{number * height + row * _LINE_HEIGHT}"/>')
    moves = "".join(
        f"{frame.at_s / whole_s:.3%}{{transform:translateY({-number * height}px)}}"
        for number, frame in enumerate(frames)
    )
    width = COLUMNS * _CELL_WIDTH + 2 * _MARGIN
    last = f"transform:translateY({-(len(frames) - 1) * height}px)"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height + _BAR + _MARGIN}" role="img">
<title>{_TITLE}</title>
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}}
.strip{{{last};animation:strip {whole_s:.2f}s step-end infinite}}
@keyframes strip{{{moves}}}
@media (prefers-reduced-motion:reduce){{.strip{{animation:none}}}}
</style>
<defs>
{_lines(names)}
</defs>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="20" cy="17" r="6" fill="#ff5f57"/><circle cx="40" cy="17" r="6" fill="#febc2e"/><circle cx="60" cy="17" r="6" fill="#28c840"/>
<svg x="{_MARGIN}" y="{_BAR}" width="{COLUMNS * _CELL_WIDTH:.0f}" height="{height}"><g class="strip">
{"".join(strip)}
</g></svg>
</svg>
"""  # noqa: E501


def _lines(names: dict[str, str]) -> str:
    drawn = []
    for line, name in names.items():
        spans = "".join(
            f'<tspan x="{column * _CELL_WIDTH:.1f}" textLength="{len(text) * _CELL_WIDTH:.1f}"'
            f"{look.attributes}>{escape(text, quote=False)}</tspan>"
            for column, text, look in pieces_of(line)
        )
        drawn.append(f'<text id="{name}" y="14">{spans}</text>')
    return "\n".join(drawn)
