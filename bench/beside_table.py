"""The table of a script that measures Milena beside Kafka: rows, medians with their spread, ratios,
and its place in the documentation."""

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cluster.model.errors import UserError

NOT_MEASURED: Final = "not measured"


class Figure(NamedTuple):
    """One row of the table: a figure of a load."""

    name: str
    form: str
    """How a value is printed, for `str.format`."""
    unit: str
    more_is_better: bool = False


class Marks(NamedTuple):
    """The lines around the output of a script in a file."""

    begin: str
    end: str


def marks_of(module: str) -> Marks:
    """Those of a script, named such as `bench.beside_kafka`."""
    name = f"{module.replace('.', '/')}.py"
    return Marks(
        f"<!-- {name}: its output begins here -->", f"<!-- {name}: its output ends here -->"
    )


class Row(NamedTuple):
    """A row and what was measured: for each system, by its name, a value of each round."""

    name: str
    figure: Figure
    values: Mapping[str, Sequence[float]]


def cell(figure: Figure, values: Sequence[float]) -> str:
    """The median, with the lowest and highest value in brackets if there are several."""
    if not values:
        return NOT_MEASURED
    text = f"{figure.form.format(statistics.median(values))} {figure.unit}"
    low, high = figure.form.format(min(values)), figure.form.format(max(values))
    return f"{text} ({low}-{high})" if len(values) > 1 else text


def ratio(figure: Figure, ours: Sequence[float], others: Sequence[float]) -> str:
    """How many times better the median of ours is, above 1 if it is better; empty without both."""
    if not ours or not others:
        return ""
    mine, theirs = statistics.median(ours), statistics.median(others)
    better, worse = (mine, theirs) if figure.more_is_better else (theirs, mine)
    if worse <= 0:
        return ""
    quotient = better / worse
    return f"{quotient:.0f}x" if quotient >= 10 else f"{quotient:.2f}x"


def table(rows: Sequence[Row], systems: Sequence[str]) -> list[str]:
    """Lines of Markdown; the ratio compares the first of two systems with the second."""
    heads = ["what", *systems, *(["ratio"] if len(systems) > 1 else [])]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for row in rows:
        columns = [row.values.get(name, ()) for name in systems]
        if not any(columns):
            continue
        cells = [row.name, *(cell(row.figure, column) for column in columns)]
        if len(systems) > 1:
            cells.append(ratio(row.figure, columns[0], columns[1]))
        lines.append(_line(cells))
    return lines


def quantile(values: Sequence[float], part: float) -> float:
    """By nearest rank; `part` is from 0 to 1."""
    ordered = sorted(values)
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)]


def write_section(path: Path, marks: Marks, text: str) -> None:
    """Replace what lies between the two marks in a file; a new file is only that.

    Raises UserError if the file has no marks.
    """
    before, after = _around_section(path, marks)
    path.write_text(f"{before}{marks.begin}\n\n{text.strip()}\n\n{marks.end}{after}")


def check_section(path: Path, marks: Marks) -> None:
    """Raises UserError if `write_section` could not write that file."""
    _around_section(path, marks)
    writable = path if path.exists() else path.absolute().parent
    if not os.access(writable, os.W_OK):
        raise UserError(f"{path} cannot be written: choose another file")


def _around_section(path: Path, marks: Marks) -> tuple[str, str]:
    """What a file has before and after the section."""
    if not path.exists():
        return "", "\n"
    if path.is_dir():
        raise UserError(f"{path} is a directory: name a file in it")
    before, begin, rest = path.read_text().partition(marks.begin)
    _, end, after = rest.partition(marks.end)
    if not begin or not end:
        raise UserError(
            f"{path} has no section to replace, which begins with the line {marks.begin}"
        )
    return before, after


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
