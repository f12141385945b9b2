"""Values that begin with a dash reach the options that may have them."""

import pytest

from cluster.tools.arguments import with_signed_values


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
