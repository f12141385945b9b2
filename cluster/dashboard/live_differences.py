"""What pages are sent of each reading: the changes since the previous one, or all of it. Pure.

A row has a number by which later readings name it; `COLUMNS` describes its cells.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from itertools import count
from typing import Any, Final

from cluster.dashboard.live_rows import COLUMNS, Cells, Key

Sections = Mapping[str, Any]
"""The parts of a reading beside rows, by name; each is JSON, and left out if unchanged."""


class Update:
    """One reading as two texts, each made once for all pages.

    `changes` is for a page that has the previous reading. Fields: sections that have changed;
    `new`: rows as number, user, client id, quota, cells; `changed`: rows as number, then the column
    and value of each changed cell; `gone`: numbers.
    """

    def __init__(self, changes: str, whole: Mapping[str, Any] | None = None) -> None:
        """Without `whole`, there are only changes."""
        self.changes = changes
        self._whole = whole

    @cached_property
    def whole(self) -> str:
        """For a page without the previous reading: `columns`, and all rows as new."""
        return self.changes if self._whole is None else _json(self._whole)


class Differences:
    """Compares each reading with the previous one. One reading at a time."""

    def __init__(self) -> None:
        self._numbers = count()
        self._rows: dict[Key, tuple[int, Cells]] = {}
        self._sections: dict[str, str] = {}
        self._has_previous = False

    def update(self, rows: Mapping[Key, Cells], sections: Sections) -> Update:
        """The texts of this reading."""
        new, changed = [], []
        known, self._rows = self._rows, {}
        for key, cells in rows.items():
            former = known.pop(key, None)
            if former is None:
                number = next(self._numbers)
                new.append((number, *key, *cells))
            else:
                number, known_cells = former
                if known_cells != cells:
                    changed.append((number, *_cells_changed(known_cells, cells)))
            self._rows[key] = (number, cells)
        texts = {name: _json(section) for name, section in sections.items()}
        news = {name: sections[name] for name in texts if texts[name] != self._sections.get(name)}
        self._sections = texts
        all_rows = [(number, *key, *cells) for key, (number, cells) in self._rows.items()]
        whole = {**sections, "columns": COLUMNS, "new": all_rows}
        if not self._has_previous:
            self._has_previous = True
            return Update(_json(whole))
        gone = [number for number, _ in known.values()]
        return Update(_json({**news, "new": new, "changed": changed, "gone": gone}), whole)

    def failed(self, line: str) -> Update:
        """Note a reading that failed; the next one is sent as a whole."""
        self._has_previous = False
        return Update(_json({"error": line}))


def _cells_changed(former: Cells, present: Cells) -> list[Any]:
    found: list[Any] = []
    for column, value in enumerate(present):
        if value != former[column]:
            found += (column, value)
    return found


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _json(value: object) -> str:
    return _ENCODER.encode(value)
