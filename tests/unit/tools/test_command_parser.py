"""Actions are words or options; unknown commands, actions and options get a suggestion."""

import argparse

import pytest

from cluster.tools.command_parser import CommandParser, unknown


def topics() -> CommandParser:
    parser = CommandParser(prog="bin/cluster topics")
    actions = parser.add_mutually_exclusive_group(required=True)
    for name in ("create", "list", "describe"):
        actions.add_argument(f"--{name}", dest="action", action="store_const", const=name)
    parser.add_argument("--topic")
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--state", nargs="?", const="")
    parser.add_argument("--props", nargs="+")
    parser.add_argument("--json", action="store_true")
    parser.accept_words(("create", "list", "describe"), name="--topic")
    return parser


def groups() -> CommandParser:
    parser = CommandParser(prog="bin/cluster groups")
    parser.add_argument("--list", dest="action", action="store_const", const="list")
    parser.add_argument("--describe", dest="action", action="store_const", const="describe")
    parser.add_argument("--group", action="append")
    parser.accept_words(("list", "describe"), name="--group", many=True)
    explain = parser.add_subparsers(dest="command").add_parser("explain")
    explain.add_argument("--group", required=True)
    explain.accept_words(name="--group")
    return parser


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("list", "--list"),
        ("--json list", "--json --list"),
        ("create orders", "--create --topic orders"),
        ("create orders --partitions 3", "--create --topic orders --partitions 3"),
        ("--partitions 3 create orders", "--partitions 3 --create --topic orders"),
        ("--part 3 create orders", "--partitions 3 --create --topic orders"),
        ("--partitions=3 create orders", "--partitions 3 --create --topic orders"),
        ("--create orders", "--create --topic orders"),
        ("--describe list", "--describe --topic list"),
        ("describe --state on", "--describe --state on"),
        ("describe --props a b", "--describe --props a b"),
        ("create --partitions -3 orders", "--create --partitions -3 --topic orders"),
    ],
)
def test_a_word_is_read_as_its_option(words, options):
    assert topics().parse_args(words.split()) == topics().parse_args(options.split())


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("describe a b", "--describe --group a --group b"),
        ("explain a", "explain --group a"),
        ("--explain --group a", "explain --group a"),
        ("--explain a", "explain --group a"),
        ("--describe --group myexplain", "--describe --group myexplain"),
        ("describe myexplain", "--describe --group myexplain"),
    ],
)
def test_an_option_is_read_as_the_sub_command_of_that_name(words, options):
    assert groups().parse_args(words.split()) == groups().parse_args(options.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("lst", "there is no action lst: did you mean list?"),
        ("zzz", "there is no action zzz; there are: create, list, describe"),
        ("list --partition-s 3", "there is no option --partition-s: did you mean --partitions?"),
        ("list --zzz=secret", "there is no option --zzz"),
        ("list --topic a b", "unrecognized arguments: b"),
        ("list a b", "unrecognized arguments: b"),
    ],
)
def test_parser_refuses_in_one_line_a_name_that_does_not_exist(words, problem, capsys):
    with pytest.raises(SystemExit) as ended:
        topics().parse_args(words.split())
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told == f"error: {problem} (see `bin/cluster topics --help`)\n"


def test_unknown_sub_commands_are_compared_with_actions_and_sub_commands(capsys):
    with pytest.raises(SystemExit):
        groups().parse_args(["explian", "a"])
    assert "there is no action explian: did you mean explain?" in capsys.readouterr().err


def test_an_unknown_option_of_a_sub_command_names_the_help_of_the_sub_command(capsys):
    with pytest.raises(SystemExit):
        groups().parse_args(["explain", "--gruop", "a"])
    assert capsys.readouterr().err == (
        "error: there is no option --gruop: did you mean --group?"
        " (see `bin/cluster groups explain --help`)\n"
    )


def test_words_after_two_dashes_are_left_alone():
    parser = CommandParser()
    parser.add_argument("words", nargs="+")
    assert parser.parse_args(["--", "--lst", "x"]) == argparse.Namespace(words=["--lst", "x"])


def test_options_of_a_command_that_is_run_are_left_alone():
    parser = CommandParser()
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    found = parser.parse_args(["--keep", "pytest", "--lst"])
    assert found == argparse.Namespace(keep=True, words=["pytest", "--lst"])


def test_parser_without_an_action_names_the_actions(capsys):
    for parser, names in ((topics(), "create, list, describe"), (groups(), "list, describe, expl")):
        with pytest.raises(SystemExit):
            parser.parse_args([])
        assert f"error: say what to do: {names}" in capsys.readouterr().err


def test_unknown_lists_few_names_only():
    assert unknown("command", "x", [f"name{n}" for n in range(30)]) == "there is no command x"


def test_an_option_whose_value_has_spaces_is_no_word():
    assert groups().parse_args(["--describe", "--group=a b"]).group == ["a b"]
    assert topics().parse_args(["--list", "--topic=a b"]).topic == "a b"
