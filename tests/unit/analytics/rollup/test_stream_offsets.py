"""The ends of a stream's batches: shares of a limit, stable text, recreated topics."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.analytics.rollup.offset_ranges import OffsetRange
from cluster.analytics.rollup.stream_offsets import (
    are_equal,
    fallen,
    from_json,
    next_offsets,
    ranges_between,
    records_between,
    to_json,
)

OFFSETS = st.dictionaries(st.integers(0, 12), st.integers(0, 10**9), max_size=6)


@given(OFFSETS)
def test_the_text_is_read_again_and_depends_on_no_order(offsets):
    text = json.dumps(to_json(offsets))
    assert from_json(json.loads(text)) == offsets
    assert json.dumps(to_json(dict(reversed(offsets.items())))) == text


@pytest.mark.parametrize(
    "found", [None, [], 7, {"x": 1}, {"0": "1"}, {"0": -1}, {"0": True}, {"-1": 1}, {"0": 1 << 63}]
)
def test_from_json_raises_for_other_texts(found):
    with pytest.raises(ValueError, match=r"offset|literal"):
        from_json(found)


@given(OFFSETS, OFFSETS, st.integers(1, 10**6))
def test_a_batch_moves_forward_and_reads_what_the_limit_allows(start, ends, most):
    chosen = next_offsets(start, ends, most)
    backlog = records_between(start, ends)
    assert records_between(start, chosen) == min(backlog, most)
    for number, offset in chosen.items():
        known = start.get(number, 0)
        assert known <= offset <= max(known, ends.get(number, 0))


@given(OFFSETS, OFFSETS)
def test_without_a_limit_it_reads_everything(start, ends):
    assert records_between(next_offsets(start, ends), ends) == 0


@given(st.dictionaries(st.integers(0, 5), st.integers(1, 10**6), min_size=1), st.integers(1, 10**5))
def test_each_partition_has_its_share_of_the_limit(backlogs, most):
    """A partition ahead of the others would make their records late."""
    chosen = next_offsets({}, backlogs, most)
    total = sum(backlogs.values())
    for number, size in backlogs.items():
        assert abs(chosen[number] - size * min(1.0, most / total)) <= 1


def test_batches_of_a_backlog_end_together():
    ends = {0: 1000, 1: 10, 2: 100}
    at = {0: 0}
    batches = 0
    while records_between(at, ends):
        at = next_offsets(at, ends, 100)
        batches += 1
    assert at == ends
    assert batches == 12


def test_a_new_partition_is_read_from_its_beginning():
    chosen = next_offsets({0: 5}, {0: 7, 1: 3})
    assert ranges_between({0: 5}, chosen) == (OffsetRange(0, 5, 7), OffsetRange(1, 0, 3))


def test_a_partition_that_shrank_is_named():
    assert fallen({0: 5, 1: 5}, {0: 5, 1: 4}) == 1
    assert fallen({0: 5, 1: 5}, {0: 6}) == 1
    assert fallen({0: 5, 1: 0}, {0: 5}) is None


def test_a_partition_of_which_nothing_was_read_may_be_missing():
    assert are_equal({0: 5}, {0: 5, 1: 0})
    assert not are_equal({0: 5}, {0: 5, 1: 1})
