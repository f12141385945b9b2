"""Tables are plain, complete and independent of the terminal; untrusted text stays text."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cluster.runtime.text_table import fitted_table, table_text

ROWS = [["orders", "12", "idle"], ["a", "1,234", "-"]]


def test_columns_are_aligned_and_lines_end_without_blanks():
    assert table_text(["TOPIC", "COUNT", "STATE"], ROWS, right=["COUNT"]).splitlines() == [
        "TOPIC   COUNT  STATE",
        "orders     12  idle",
        "a       1,234  -",
    ]


def test_empty_headings_are_not_shown_and_an_indent_stands_before_every_line():
    assert table_text(["", ""], [["read", "1"], ["written", "22"]], indent="  ").splitlines() == [
        "  read     1",
        "  written  22",
    ]


def test_no_rows_leave_the_headings():
    assert table_text(["A", "B"], []) == "A  B"


@pytest.mark.parametrize("columns", ["1", "20", "80", "10000"])
def test_a_table_is_never_cut_by_the_width_of_a_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    text = table_text(["NAME", "LAST"], [["x" * 500, "end"]])
    assert text.splitlines() == [f"NAME{' ' * 498}LAST", f"{'x' * 500}  end"]


@pytest.mark.parametrize("foreign", ["[bold]x[/bold]", "[/]", ":smile:", "[link=http://x]y", "\\["])
def test_markup_in_a_cell_is_text(foreign):
    assert table_text(["A"], [[foreign]]) == f"A\n{foreign}"


@pytest.mark.parametrize(
    ("foreign", "seen"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("a\tb\r", r"a\tb\r"),
        ("\u202eback", r"\u202eback"),
        ("naïve 日本", "naïve 日本"),
    ],
)
def test_control_characters_are_escaped(foreign, seen):
    assert table_text(["A"], [[foreign]]) == f"A\n{seen}"


def test_wide_characters_take_two_places():
    lines = table_text(["A", "B"], [["日本", "x"], ["abcd", "y"]]).splitlines()
    assert lines == ["A     B", "日本  x", "abcd  y"]


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=4))
def test_any_text_makes_one_line_per_row(rows):
    text = table_text(["A", "B", "C"], rows)
    assert len(text.split("\n")) == 1 + len(rows)
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert "\x1b" not in text


def fitted(width: int) -> list[str]:
    console = Console(width=width, file=StringIO(), color_system=None)
    table = fitted_table(
        ("NAME", "RULE", "RATE"),
        [("a-long-client-id", "user", "1 B/s"), ("b", "client", "12 KiB/s")],
        width,
        right=("RATE",),
        shrinking="NAME",
        dispensable=("RULE",),
    )
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_table_is_fitted_into_a_terminal():
    assert fitted(80) == [
        "NAME              RULE        RATE",
        "a-long-client-id  user       1 B/s",
        "b                 client  12 KiB/s",
    ]
    assert fitted(32)[1:] == [
        "a-long-client…  user       1 B/s",
        "b               client  12 KiB/s",
    ]
    assert fitted(26)[1:] == ["a-long-client-id     1 B/s", "b                 12 KiB/s"]
    assert fitted(20)[1:] == ["a-long-cl…     1 B/s", "b           12 KiB/s"]
