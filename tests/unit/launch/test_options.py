"""The options of `start`: the parser, the record and the command line say the same."""

import argparse
from pathlib import Path

import pytest

from cluster.launch.options import StartOptions, add_start_options

CHANGED = StartOptions(
    data_dir=Path("/data"),
    brokers=5,
    broker_ids="1-5",
    detach=True,
    config=Path("server.properties"),
    overrides=("a=1", "b=x=2"),
    log_dirs="one,two",
    racks="a,b",
    secure=True,
    host="0.0.0.0",
    advertised_host="example.org",
    port=0,
    dashboard_port=1,
    dashboard_host="::",
    dashboard_actions=True,
    has_dashboard=False,
    registry_host="::1",
    registry_port=0,
)


def parsed(words: list[str]) -> StartOptions:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path)
    add_start_options(parser)
    args = parser.parse_args(words)
    return StartOptions.of_arguments(args.data_dir, args)


def test_options_are_the_same_after_a_command_line() -> None:
    assert parsed(["--data-dir=/data", *CHANGED.arguments()]) == CHANGED
    usual = StartOptions(Path("/data"))
    assert usual.arguments() == []
    assert parsed(["--data-dir=/data"]) == usual


def test_every_option_is_tried_above() -> None:
    usual = StartOptions(Path("/data"))
    same = [
        name for name in StartOptions.__slots__ if getattr(CHANGED, name) == getattr(usual, name)
    ]
    assert same == ["data_dir", "lifeline"]


def test_a_part_of_the_options_has_texts_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_start_options(parser, ("port", "secure"), {"port": "the port here"})
    args = parser.parse_args(["--port", "7"])
    assert (args.port, args.secure) == (7, False)
    assert not hasattr(args, "brokers")
    parser.print_help()
    assert "the port here" in capsys.readouterr().out
