"""Formats log lines: one record is one line, whatever it contains. Pure.

Every process uses this formatter, so no call site can forget to escape.
"""

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from cluster.model.printable import NAME_MAX_CHARACTERS, one_line

LINE_MAX_CHARACTERS: Final = 4_000
"""Of a message, its parts included."""

_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
_DATE_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_TRACE_INDENT: Final = "    "
"""No line of a trace begins as a record does, so none is taken for one."""
_TRACE_LINES_MAX: Final = 120


class LineFormatter(logging.Formatter):
    """Escapes and truncates every argument and the whole message; an indented traceback follows."""

    def __init__(self) -> None:
        super().__init__(_FORMAT, _DATE_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Format the line without its end, followed by the lines of its traceback, if any."""
        shown = logging.makeLogRecord(record.__dict__)
        shown.msg, shown.args = _message(record), ()
        shown.exc_text = None  # another handler's formatting would differ
        return super().format(shown)

    def formatException(
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        """The escaped traceback, with its middle omitted if it is long."""
        return _trace(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        """Format a requested stack like a traceback."""
        return _trace(super().formatStack(stack_info))


class _Cut:
    """A text argument, truncated to the maximum length of a name."""

    __slots__ = ("_argument",)

    def __init__(self, argument: object) -> None:
        self._argument = argument

    def __str__(self) -> str:
        return one_line(str(self._argument), NAME_MAX_CHARACTERS)

    def __repr__(self) -> str:
        return one_line(repr(self._argument), NAME_MAX_CHARACTERS)


def _message(record: logging.LogRecord) -> str:
    text = str(record.msg)
    arguments: Any = record.args
    if isinstance(arguments, Mapping):
        text %= {key: _cut(value) for key, value in arguments.items()}
    elif arguments:
        text %= tuple(map(_cut, arguments))
    return one_line(text, LINE_MAX_CHARACTERS)


def _cut(argument: object) -> object:
    return argument if isinstance(argument, int | float) else _Cut(argument)


def _trace(text: str) -> str:
    found = text.splitlines()  # also split untrusted texts that contain line breaks
    if len(found) > _TRACE_LINES_MAX:
        half = _TRACE_LINES_MAX // 2
        left_out = f"... {len(found) - 2 * half} lines are left out ..."
        found = [*found[:half], left_out, *found[-half:]]
    return "\n".join(_TRACE_INDENT + one_line(line) for line in found)
