"""Reads Java properties files into keys and values with line numbers, and writes them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from javaproperties import InvalidUEscapeError, KeyValue, join_key_value, parse

from cluster.model.errors import UserError

_LINE_END: Final = re.compile(r"\r\n|\r|\n")

_HALF_A_PAIR: Final = re.compile("[\ud800-\udfff]")


class PropertiesFile(NamedTuple):
    """The keys and values of a file; the later one of a repeated key wins."""

    texts: Mapping[str, str]
    lines: Mapping[str, int]
    """The line, counted from 1, on which each key begins."""


def parse_properties(text: str) -> PropertiesFile:
    """Parse the format of java.util.Properties.

    That is `key=value`, `key: value` or `key value`, escapes, comments (# and !), and a backslash
    that continues a line. A key without a value has an empty one. Raises UserError with the line of
    a broken `\\u` escape.
    """
    texts: dict[str, str] = {}
    lines: dict[str, int] = {}
    line = 1
    try:
        for element in parse(text):
            if isinstance(element, KeyValue):
                _check_text(element.key + element.value, line)
                texts[element.key], lines[element.key] = element.value, line
            line += len(_LINE_END.findall(element.source))
    except InvalidUEscapeError as problem:
        raise UserError(
            f"line {line}: {problem.escape} is not a character: write \\u and four hex digits"
        ) from None
    return PropertiesFile(texts, lines)


def _check_text(text: str, line: int) -> None:
    half = _HALF_A_PAIR.search(text)
    if half is not None:
        raise UserError(
            f"line {line}: \\u{ord(half[0]):04x} is not a character: it is half a surrogate pair"
        )


def read_properties_file(path: Path) -> PropertiesFile:
    """Read a file of UTF-8 text. Raises UserError that names the file."""
    try:
        return parse_properties(path.read_text("utf-8"))
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {path}: it is not text") from None
    except UserError as problem:
        raise UserError(f"{path}, {problem}") from None


def render_properties(texts: Mapping[str, str]) -> str:
    """One line per key, escaped so that `parse_properties` and Java read the same text."""
    return "".join(f"{join_key_value(key, value)}\n" for key, value in texts.items())
