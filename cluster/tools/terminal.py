"""The standard streams of a command: no foreign text reaches a terminal unescaped.

`main` puts an `EscapedStream` in the place of stdout and stderr, so that no call of `print` can
forget. Names and reasons are put on one line where they are shown (`printable.one_line`): an end of
line is part of what a command prints, so a stream cannot know which one is foreign.
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
    """A text stream whose control characters are spelled out, but for tabs and ends of lines."""

    def __init__(self, stream: TextIO) -> None:
        self.raw_text = stream
        """For those who make escape sequences themselves."""

    def write(self, text: str) -> int:
        """As the stream does."""
        self.raw_text.write(lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw_text, name)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """What this process prints within the block is escaped."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, EscapedStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console(*, is_stderr: bool = False, **options: Any) -> "Console":
    """A console of rich on stdout or stderr; its colours and movements are not escaped.

    Texts that are foreign go through `printable.one_line` and into a `rich.text.Text`, which reads
    no markup in them.
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
    """The table on stdout: with its styles where a terminal shows them, else as plain text."""
    if sys.stdout.isatty():
        console(width=WIDTH_MAX).print(rich_table(headings, rows, right=right))
    else:
        print(table_text(headings, rows, right=right))


def readable(line: bytes) -> bytes:
    """A line of records as a terminal may get it: text in UTF-8, control characters spelled out."""
    return lines(line.decode("utf-8", "backslashreplace")).encode()
