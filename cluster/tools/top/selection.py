"""What is shown of a table, and how keys change that. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster.tools.top.tables import TABLES, Row, Table, Value

VIEWS: Final = tuple(TABLES)
HINT: Final = "q quit  Tab 1-4 view  <> sort  r reverse  / filter  ↑↓ select  a all  p pause"
_KEYS: Final = re.compile(r"\x1b(?:[\[O][\d;]*[A-Za-z~])?|[^\x1b]", re.DOTALL)
_NAMES: Final = {
    **{f"\x1b{kind}A": "up" for kind in "[O"},
    **{f"\x1b{kind}B": "down" for kind in "[O"},
    **{f"\x1b{kind}C": ">" for kind in "[O"},
    **{f"\x1b{kind}D": "<" for kind in "[O"},
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "delete",
    "\b": "delete",
    "k": "up",
    "j": "down",
}
_VIEW_KEYS: Final = {
    **{str(number): view for number, view in enumerate(VIEWS, 1)},
    **{view[0]: view for view in VIEWS},
}


def keys_of(text: str) -> Iterator[str]:
    """The keys in what a terminal delivers; letters stay as they are."""
    return iter(_KEYS.findall(text))


@dataclass(frozen=True)
class Selection:
    """The view, its order, its filter."""

    view: str = VIEWS[0]
    sort: str | None = None
    """The column; None for the usual order of the view."""
    is_reversed: bool = False
    filter: str = ""
    is_typing: bool = False
    """Whether keys are letters of the filter."""
    everyone: bool = False
    is_paused: bool = False
    at: int = 0
    """The row that is selected."""
    is_over: bool = False

    def pressed(self, key: str, columns: Sequence[str]) -> "Selection":
        """The selection after a key; `columns` are those of the present view."""
        name = _NAMES.get(key, key)
        if self.is_typing:
            return self._typed(key, name)
        if key in _VIEW_KEYS:
            return self._of_view(_VIEW_KEYS[key])
        changes: dict[str, dict[str, Any]] = {
            "q": {"is_over": True},
            "Q": {"is_over": True},
            "r": {"is_reversed": not self.is_reversed},
            "/": {"is_typing": True},
            "escape": {"filter": "", "at": 0},
            "a": {"everyone": not self.everyone},
            "p": {"is_paused": not self.is_paused},
            " ": {"is_paused": not self.is_paused},
            "up": {"at": max(0, self.at - 1)},
            "down": {"at": self.at + 1},
            "<": {"sort": self._neighbor(columns, -1), "is_reversed": False},
            ">": {"sort": self._neighbor(columns, 1), "is_reversed": False},
        }
        if key == "\t":
            return self._of_view(VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)])
        return replace(self, **changes.get(name, {}))

    def selecting(self, at: int) -> "Selection":
        """The same with another row selected."""
        return replace(self, at=at)

    def _typed(self, key: str, name: str) -> "Selection":
        if key in ("\r", "\n"):
            return replace(self, is_typing=False)
        if key == "\x1b":
            return replace(self, is_typing=False, filter="", at=0)
        if name == "delete":
            return replace(self, filter=self.filter[:-1], at=0)
        return replace(self, filter=self.filter + key, at=0) if key.isprintable() else self

    def _of_view(self, view: str) -> "Selection":
        return replace(self, view=view, sort=None, is_reversed=False, at=0)

    def _neighbor(self, columns: Sequence[str], step: int) -> str:
        """The column beside the one that sorts; without one the first or the last."""
        if self.sort not in columns:
            return columns[0 if step > 0 else -1]
        return columns[(columns.index(self.sort) + step) % len(columns)]


def chosen_rows(table: Table, selection: Selection) -> list[Row]:
    """The rows that match the filter, in the chosen order: numbers fall, names rise."""
    wanted = selection.filter.casefold()
    rows = [row for row in table.rows if wanted in row.name.casefold()]
    if selection.sort in table.columns:
        at = table.columns.index(selection.sort)
        is_amount = selection.sort in table.amounts or any(
            isinstance(row.values[at], float) for row in rows
        )
        known = [row for row in rows if row.values[at] is not None]
        unknown = [row for row in rows if row.values[at] is None]
        known.sort(key=lambda row: _key(row.values[at]), reverse=is_amount != selection.is_reversed)
        return known + unknown
    return rows[::-1] if selection.is_reversed else rows


def _key(value: Value) -> tuple[float, str]:
    return (0.0, value.casefold()) if isinstance(value, str) else (float(value or 0), "")


def window(count: int, at: int, room: int) -> tuple[int, int]:
    """The first row shown and the one after the last, so that row `at` is among them."""
    if count <= room:
        return 0, count
    first = min(max(0, at - room // 2), count - room)
    return first, first + room
