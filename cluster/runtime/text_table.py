"""Prints the tables of all commands through rich.

Cells are shown literally: markup is not interpreted, and control characters (escape sequences, line
breaks) are spelled out, because client ids and topic names are untrusted. A table is as wide as its
cells, whatever the terminal or COLUMNS say, so that scripts see all of it.
"""

from collections.abc import Collection, Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final

from cluster.model.printable import one_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_GAP: Final = 2
_SHRUNK: Final = 10
"""A column that shrinks keeps so many characters of its longest cell, if other columns may go."""
WIDTH_MAX: Final = 1 << 24
"""No table is that wide, so rich never has to shorten one; it writes no more than is there."""


def styled(text: str, style: str) -> "Text":
    """A cell in one of rich's styles, which shows on terminals only."""
    from rich.text import Text

    return Text(one_line(text, None), style)


def rich_table(
    headings: Sequence[str],
    rows: Iterable[Sequence["str | Text"]],
    *,
    right: Collection[str] = (),
) -> "Table":
    """A table for rich's live views.

    `right` names the right-aligned columns; headings that are all empty are hidden.
    """
    from rich.table import Table

    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        show_header=any(headings),
        header_style="bold",
    )
    for heading in headings:
        table.add_column(
            styled(heading, ""),
            justify="right" if heading in right else "left",
            no_wrap=True,
        )
    for row in rows:
        table.add_row(*(styled(cell, "") if isinstance(cell, str) else cell for cell in row))
    return table


def fitted_table(
    headings: Sequence[str],
    rows: Sequence[Sequence["str | Text"]],
    width: int,
    *,
    right: Collection[str] = (),
    shrinking: str,
    dispensable: Sequence[str],
) -> "Table":
    """Make a `rich_table` for a terminal of `width` columns: nothing is broken into two lines.

    The cells of `shrinking` are shortened; where that is not enough, `dispensable` columns are left
    out, in their order.
    """
    from rich.cells import cell_len

    texts = [[styled(each, "") if isinstance(each, str) else each for each in row] for row in rows]
    widths = {
        heading: max([cell_len(heading), *(row[at].cell_len for row in texts)])
        for at, heading in enumerate(headings)
    }
    narrow = min(widths[shrinking], _SHRUNK)
    left_out: set[str] = set()

    def room() -> int:
        """The width that the other columns leave for the shrinking one."""
        kept = [heading for heading in headings if heading not in left_out]
        return width - sum(widths[each] + _GAP for each in kept if each != shrinking)

    for heading in dispensable:
        if room() >= narrow:
            break
        left_out.add(heading)
    for row in texts:
        row[headings.index(shrinking)].truncate(max(1, room()), overflow="ellipsis")
    kept = [at for at, heading in enumerate(headings) if heading not in left_out]
    return rich_table(
        [headings[at] for at in kept], [[row[at] for at in kept] for row in texts], right=right
    )


def table_text(
    headings: Sequence[str],
    rows: Iterable[Sequence["str | Text"]],
    *,
    right: Collection[str] = (),
    indent: str = "",
) -> str:
    """The table as plain text without trailing blanks; the last line has no line break."""
    from rich.console import Console

    out = StringIO()
    console = Console(file=out, width=WIDTH_MAX, color_system=None, force_terminal=False)
    console.print(rich_table(headings, rows, right=right))
    return "\n".join(f"{indent}{line.rstrip()}" for line in out.getvalue().splitlines())
