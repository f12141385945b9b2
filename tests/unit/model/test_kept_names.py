"""Long foreign names are kept by their beginning and their hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.metrics.stats_layout import CLIENT_ID_MAX_BYTES
from cluster.model.kept_names import WHOLE_MAX_BYTES, is_kept_whole, kept_name, spellings

LONG = "x" * 32_000


@pytest.mark.parametrize("name", ["", "loader-1", "x" * 180, "ü" * 90, "\U0001f600" * 45])
def test_a_name_within_the_bound_is_kept_as_it_is(name):
    assert kept_name(name) is name


def test_a_long_name_is_kept_by_its_beginning_and_its_hash():
    kept = kept_name(LONG)
    assert kept.startswith("x" * 118 + "...")
    assert len(kept) == 185
    assert kept_name(LONG) == kept
    assert kept_name(LONG + "y") != kept


@given(st.text(min_size=181, max_size=400))
def test_what_stands_for_a_name_is_never_a_name_that_is_kept_as_it_is(name):
    size = len(kept_name(name).encode())
    assert WHOLE_MAX_BYTES < size <= CLIENT_ID_MAX_BYTES


def test_a_long_name_is_found_as_it_was_given_and_as_it_was_shown():
    kept = kept_name(LONG)
    assert kept in spellings(LONG)
    assert kept in spellings(kept)
    assert is_kept_whole("loader-1")
    assert not is_kept_whole(kept)


def test_halves_of_surrogate_pairs_are_no_failure():
    assert kept_name("\ud800" * 100) != kept_name("\ud801" * 100)
