"""A spreadsheet evaluates no cell of a CSV file that we write."""

import pytest

from cluster.model.csv_cells import inert


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_inert_quotes_a_text_that_begins_like_a_formula(text):
    assert inert(text) == f"'{text}"


@pytest.mark.parametrize("value", ["", "loader-1", "a=b", "'=1", -1, 2.5, None, True])
def test_inert_leaves_other_cells_as_they_are(value):
    assert inert(value) is value
