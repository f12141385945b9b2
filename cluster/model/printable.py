"""Makes foreign text safe to show: in a log line, on a terminal, in a report. Pure.

Topics, client ids, users, znode paths, header names and texts of exceptions may contain anything
that their encoding allows. Shown unchanged, they could forge log lines, move a terminal's cursor,
set its title or reverse the direction of text (CVE-2021-42574).
"""

import re
from typing import Final

NAME_MAX_CHARACTERS: Final = 500
"""For a name, a reason or a path; a longer text is cut and says so. Kafka's names end at 249."""

# Control characters (C0, DEL, C1: escape sequences begin with one), line and paragraph separators,
# marks that change the direction of text, invisible characters, and halves of surrogate pairs,
# which no encoding can write. Joiners (U+200C, U+200D) are kept: scripts and emoji need them.
_UNSAFE_IN_LINES: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_UNSAFE: Final = re.compile(f"[\t\n{_UNSAFE_IN_LINES}]")
_UNSAFE_BUT_LAYOUT: Final = re.compile(f"[{_UNSAFE_IN_LINES}]")


def one_line(text: str, max_characters: int | None = NAME_MAX_CHARACTERS) -> str:
    r"""The text on one line, with unsafe characters as Python spells them: `\n`, `\x1b`.

    Beyond `max_characters` (None: any number) it is cut: `...(1234 more characters)`. Characters
    are counted before they are spelled out.
    """
    more = 0 if max_characters is None else len(text) - max_characters
    if more > 0:
        return f"{one_line(text[:max_characters])}...({more} more characters)"
    return _UNSAFE.sub(_spelled, text)


def lines(text: str) -> str:
    """The text with its tabs and line ends, and everything else spelled as above."""
    return _UNSAFE_BUT_LAYOUT.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
