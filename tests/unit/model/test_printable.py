import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model import printable

NASTY = [
    "nl\n2026-01-01 ERROR forged: line",
    "cr\rforged",
    "esc\x1b[2J\x1b]0;title\x07",
    "c1\x9b31m",
    "del\x7f",
    "bidi\u202egnp.exe",
    "isolate\u2066x\u2069",
    "mark\u200f\u061c",
    "ends\u2028here\u2029there\x85and\x0b\x0c",
    "half\ud800",
    "tag\U000e0041",
    "\ufefffirst",
]


@pytest.mark.parametrize("text", NASTY)
def test_one_line_contains_no_unsafe_character(text):
    shown = printable.one_line(text)
    assert len(shown.splitlines()) == 1
    assert shown.isprintable()
    assert shown.encode("utf-8")


def test_unsafe_characters_are_spelled_as_python_spells_them():
    assert printable.one_line("a\nb\x1b[0m\u202e\ud800\x9b") == r"a\nb\x1b[0m\u202e\ud800\x9b"


@pytest.mark.parametrize(
    "text", ["orders", "café", "日本語", "👨\u200d👩", "\u0646\u0645\u06cc\u200c\u062e", r"C:\x"]
)
def test_one_line_leaves_ordinary_text_unchanged(text):
    assert printable.one_line(text) == printable.lines(text) == text


def test_one_line_cuts_long_text_and_says_so():
    assert printable.one_line("x" * 12, 10) == "x" * 10 + "...(2 more characters)"
    assert printable.one_line("x" * 10, 10) == "x" * 10
    assert len(printable.one_line("\x1b" * 100_000)) < 4 * printable.NAME_MAX_CHARACTERS + 40


def test_lines_keeps_tabs_and_line_ends():
    assert printable.lines("a\n\tb\x1b[0m\r\n") == "a\n\tb\\x1b[0m\\r\n"


@given(st.text(st.characters(), max_size=50))
def test_no_control_character_direction_mark_or_surrogate_gets_through(text):
    for character in printable.one_line(text, None):
        category = unicodedata.category(character)
        assert category not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in (
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        )
