"""Options of `transactions` that contradict each other, and its tables."""

import pytest

from cluster.tools.main import main
from cluster.tools.transactions.options import print_table

PLACE = "--topic orders --partition 0"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("find-hanging", "needs --topic or --broker-id"),
        ("find-hanging --broker-id 0 --partition 1", "--partition needs --topic"),
        ("explain --partition 1", "--partition needs --topic"),
        ("explain --topic t --transactional-id x", "does not go with --topic"),
        ("explain --topic t --last 3", "--last needs --transactional-id"),
        (f"abort {PLACE}", "say which transaction: --start-offset, or --producer-id"),
        (f"abort {PLACE} --producer-epoch 1 --coordinator-epoch 1", "say which transaction"),
        (f"abort {PLACE} --producer-id 1", "needs --producer-epoch and --coordinator-epoch"),
        (f"abort {PLACE} --start-offset 1 --producer-id 1", "does not go with --producer-id"),
        (f"abort {PLACE} --start-offset 1 --coordinator-epoch 1", "does not go with"),
    ],
)
def test_contradictory_options_are_wrong_usage(words, said, capsys):
    assert main(["transactions", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_table_has_padded_cells_with_a_tab_after_each(capsys):
    print_table(("Topic", "N"), [("orders", "1"), ("a\nb", "1234")])
    assert capsys.readouterr().out == "Topic \tN   \t\norders\t1   \t\na\\nb  \t1234\t\n"


def test_a_table_without_rows_is_its_headings(capsys):
    print_table(("Topic", "N"), [])
    assert capsys.readouterr().out == "Topic\tN\t\n"
