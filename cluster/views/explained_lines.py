"""Lines of explanations: text that is wrapped behind a label or a bullet. Pure."""

import textwrap
from collections.abc import Iterator
from typing import Final

WIDTH: Final = 100


def wrapped(
    start: str, text: str, *, indent: int | None = None, width: int = WIDTH
) -> Iterator[str]:
    """The lines of a text that begins with `start`, of at most `width` characters.

    Further lines are indented by its length, or by `indent`.
    """
    yield from textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * (len(start) if indent is None else indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
