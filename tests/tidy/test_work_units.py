"""What is one piece of work for pytest's processes."""

from tests.support.work_units import LONGEST, ROOT, in_order, piece_of


def test_tests_that_share_a_fixture_stay_together_and_others_do_not():
    together = "tests/integration/test_compiled.py"
    assert piece_of(f"{together}::test_a") == piece_of(f"{together}::test_b[1::2]") == together
    alone = "tests/integration/test_restart.py::test_a[1]"
    assert piece_of(alone) == alone


def test_short_tests_of_a_module_stay_together_unless_one_is_long():
    assert piece_of("tests/wire/test_x.py::test_a[1]") == "tests/wire/test_x.py"
    long = "tests/tidy/test_layers.py::test_each_module_can_be_imported_by_itself"
    assert piece_of(long) == long


def test_the_longest_come_first_and_short_modules_are_spread_among_the_others():
    given = ["tests/fuzz/a", "tests/fuzz/b", "tests/unit/a", "tests/unit/b", LONGEST[1], LONGEST[0]]
    spread = ["tests/unit/a", "tests/fuzz/a", "tests/unit/b", "tests/fuzz/b"]
    assert in_order(given) == [LONGEST[0], LONGEST[1], *spread]


def test_the_longest_pieces_are_pieces():
    for piece in LONGEST:
        module, _, test = piece.partition("::")
        assert piece_of(f"{module}::{test or 'any'}") == piece
        assert f"def {test}" in (ROOT / module).read_text()
