"""The standard streams of a command, which escape control characters of untrusted text.

`main` replaces stdout and stderr by an `EscapedStream`, so that every `print` is covered. Newlines
within names and error texts are escaped where these are printed (`printable.one_line`), because a
stream cannot distinguish them from the newlines that a command prints itself.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from cluster.model.printable import lines
from cluster.runtime.text_table import WIDTH_MAX, rich_table, table_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


class EscapedStream:
    """A text stream that escapes control characters, except for tabs and newlines."""

    def __init__(self, stream: TextIO) -> None:
        self.raw_text = stream
        """The stream without escaping, for code that writes terminal sequences itself."""

    def write(self, text: str) -> int:
        """Write the text escaped. Returns the length of `text`, as text streams do."""
        self.raw_text.write(lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw_text, name)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """Within the block, everything that this process prints is escaped."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, EscapedStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console(*, is_stderr: bool = False, **options: Any) -> "Console":
    """A rich console on stdout or stderr; its colors and cursor movements are not escaped.

    Untrusted text must go through `printable.one_line` and into a `rich.text.Text`, which does not
    interpret markup.
    """
    from rich.console import Console

    stream = sys.stderr if is_stderr else sys.stdout
    return Console(file=getattr(stream, "raw_text", stream), **options)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence["str | Text"]],
    *,
    right: Collection[str] = (),
) -> None:
    """Print the table on stdout, with styles on a terminal, else as plain text."""
    if sys.stdout.isatty():
        console(width=WIDTH_MAX).print(rich_table(headings, rows, right=right))
    else:
        print(table_text(headings, rows, right=right))


def readable(line: bytes) -> bytes:
    """The line for a terminal: control characters and bytes that are not UTF-8 are escaped."""
    return lines(line.decode("utf-8", "backslashreplace")).encode()
