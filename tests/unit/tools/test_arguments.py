"""Values that begin with a dash reach the options that may have them."""

from pathlib import Path

import pytest

from cluster.tools.arguments import example, with_signed_values


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--growth", "-20%"], ["--growth=-20%"]),
        (["--gro", "-.5%"], ["--gro=-.5%"]),
        (["--brokers", "-1", "--growth", "-20"], ["--brokers=-1", "--growth=-20"]),
        (["--growth=-20%"], ["--growth=-20%"]),
        (["--growth", "30%"], ["--growth", "30%"]),
        (["--growth", "-json"], ["--growth", "-json"]),
        (["--growth", "--json"], ["--growth", "--json"]),
        (["--shift-by", "-5"], ["--shift-by", "-5"]),
        (["--", "-5"], ["--", "-5"]),
        ([], []),
    ],
)
def test_with_signed_values_joins_an_option_and_its_negative_value(arguments, expected):
    assert with_signed_values(arguments) == expected


def test_a_long_example_goes_on_in_the_next_line_before_an_option(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    topic, config = f"--topic {'o' * 50}", f"--config {'c' * 50}"
    assert example("stop", f"topics --create {topic} {config}") == (
        f"examples:\n  bin/cluster stop\n  bin/cluster topics --create {topic} \\\n      {config}"
    )
