"""What is one piece of work for pytest's processes."""

from tests.support.work_units import LONGEST, ROOT, piece_of


def test_tests_that_share_a_fixture_stay_together_and_others_do_not():
    together = "tests/integration/test_compiled.py"
    assert piece_of(f"{together}::test_a") == piece_of(f"{together}::test_b[1::2]") == together
    alone = "tests/tidy/test_work_units.py::test_a[1]"
    assert piece_of(alone) == alone


def test_the_longest_pieces_are_pieces():
    for piece in LONGEST:
        module, _, test = piece.partition("::")
        assert piece_of(f"{module}::{test or 'any'}") == piece
        assert f"def {test}" in (ROOT / module).read_text()
