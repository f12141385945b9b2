import io
import sys

import pytest
from rich.text import Text

from cluster.runtime.text_table import styled
from cluster.tools import terminal
from cluster.tools.terminal import EscapedStream, escaped_streams, print_table, readable


def test_control_characters_are_spelled_out_and_layout_stays():
    out = io.StringIO()
    print("a\tb\x1b]0;title\x07\u202e\nc", file=EscapedStream(out))
    assert out.getvalue() == "a\tb\\x1b]0;title\\x07\\u202e\nc\n"


def test_the_streams_are_escaped_within_the_block_alone(capsys):
    before = sys.stdout
    with escaped_streams():
        print("one\x1b[2J")
        print("two\x9b2J", file=sys.stderr)
        assert not sys.stdout.isatty()
    assert sys.stdout is before
    print("three\x1b[2J")
    out, err = capsys.readouterr()
    assert (out, err) == ("one\\x1b[2J\nthree\x1b[2J\n", "two\\x9b2J\n")


def test_rich_makes_its_own_sequences_and_reads_no_markup_in_names(capsys):
    with escaped_streams():
        console = terminal.console(force_terminal=True, color_system="standard", width=80)
        console.print(Text.assemble(("[red]client[/red]", "bold")))
    assert capsys.readouterr().out == "\x1b[1m[red]client[/red]\x1b[0m\n"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain \xc3\xa9\n", b"plain \xc3\xa9\n"),
        (b"\x1b[2J\r\n", b"\\x1b[2J\\r\n"),
        (b"\xff\x00\n", b"\\xff\\x00\n"),
        (b'{\n\t"a": 1\n}\n', b'{\n\t"a": 1\n}\n'),
    ],
)
def test_a_terminal_gets_records_as_text(line, shown):
    assert readable(line) == shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_on_a_terminal_has_styles_and_is_whole(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    with escaped_streams():
        print_table(["NAME", "B"], [[styled("x" * 50, "bold red"), "end"]])
    assert f"\x1b[1;31m{'x' * 50}" in out.getvalue()
    assert "end" in out.getvalue()


@pytest.mark.parametrize("forced", ["FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"])
def test_a_table_into_a_pipe_has_no_colors_whatever_the_environment_says(
    forced, monkeypatch, capsys
):
    monkeypatch.setenv(forced, "1")
    print_table(["A"], [[styled("x", "bold red")]])
    assert capsys.readouterr().out == "A\nx\n"
