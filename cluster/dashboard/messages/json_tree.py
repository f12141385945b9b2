"""Reads JSON as the lines of a tree, without recursion and with numbers as they are written. Pure.

A parser of Python's or of a browser would limit the depth, round large integers and drop all but
one of equal keys.
"""

import json
import re
from typing import Any, Final, NamedTuple

LINES_MAX: Final = 20_000

_TOKEN: Final = re.compile(
    r"""[ \t\n\r]*+(?:
        (?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")
      | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
      | (?P<literal>true|false|null)
      | (?P<mark>[\[\]{},:])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_CLOSES: Final = {"{": "}", "[": "]"}
_KINDS: Final = {"{": "object", "[": "array"}


class Tree(NamedTuple):
    """The lines of a JSON object or array."""

    lines: list[list[Any]]
    """Depth, label (a key, an index as a number, None for the root), kind and content: of an
    object or an array the number of its members, else the value as it is written."""
    is_cut: bool
    """Whether there are more lines."""


class _NotJson(Exception):
    pass


def json_tree(text: str, lines_max: int = LINES_MAX) -> Tree | None:
    """The tree of an object or array; None for any other text."""
    if not text.lstrip(" \t\n\r").startswith(("{", "[")):
        return None
    reading = _Reading(text, lines_max)
    try:
        reading.read()
    except _NotJson:
        return None
    return Tree(reading.lines, reading.count > len(reading.lines))


class _Reading:
    """One pass over a text, with the open containers on a stack of its own."""

    def __init__(self, text: str, lines_max: int) -> None:
        self.lines: list[list[Any]] = []
        self.count = 0
        self._text = text
        self._position = 0
        self._lines_max = lines_max
        self._open: list[list[Any]] = []
        """Line and opening mark of each container."""

    def read(self) -> None:
        self._value(None, *self._token())
        while self._open:
            line, mark = self._open[-1]
            kind, token = self._token()
            if line[3] > 0 and token != _CLOSES[mark]:
                self._need(token == ",")
                kind, token = self._token()
            elif token == _CLOSES[mark]:
                self._open.pop()
                continue
            label: Any = line[3]
            line[3] += 1
            if mark == "{":
                self._need(kind == "string")
                label = _string(token)
                self._need(self._token()[1] == ":")
                kind, token = self._token()
            self._value(label, kind, token)
        self._need(self._token()[0] == "end")

    def _value(self, label: Any, kind: str, token: str) -> None:
        depth = len(self._open)
        if token in _KINDS and kind == "mark":
            line = [depth, label, _KINDS[token], 0]
            self._open.append([line, token])
        else:
            self._need(kind in ("string", "number", "literal"))
            line = [depth, label, kind, _string(token) if kind == "string" else token]
        self.count += 1
        if len(self.lines) < self._lines_max:
            self.lines.append(line)

    def _token(self) -> tuple[str, str]:
        found = _TOKEN.match(self._text, self._position)
        self._need(found is not None)
        assert found is not None
        self._position = found.end()
        kind = found.lastgroup or ""
        return kind, found[kind]

    @staticmethod
    def _need(is_met: bool) -> None:
        if not is_met:
            raise _NotJson


def _string(token: str) -> str:
    """A string with its quotes; escapes are resolved if what they stand for can be shown."""
    if "\\u" not in token:
        return token
    text = json.loads(token)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return token
    return json.dumps(text, ensure_ascii=False)
