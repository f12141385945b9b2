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
def test_kept_form_of_a_long_name_never_equals_a_short_name(name):
    size = len(kept_name(name).encode())
    assert WHOLE_MAX_BYTES < size <= CLIENT_ID_MAX_BYTES


def test_spellings_include_a_long_name_and_its_kept_form():
    kept = kept_name(LONG)
    assert kept in spellings(LONG)
    assert kept in spellings(kept)
    assert is_kept_whole("loader-1")
    assert not is_kept_whole(kept)


def test_kept_name_accepts_halves_of_surrogate_pairs():
    assert kept_name("\ud800" * 100) != kept_name("\ud801" * 100)
