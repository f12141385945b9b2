from hypothesis import given
from hypothesis import strategies as st

from cluster.log.cleaner.order import SourceSegment
from cluster.log.cleaner.segment_groups import GROUP_MAX, group_segments
from cluster.model.ids import Offset
from cluster.records.batch import MAX_INT32


def segments(*sizes: int, step: int = 100) -> list[SourceSegment]:
    return [SourceSegment(Offset(n * step), size, 8, 12) for n, size in enumerate(sizes)]


def sizes_of(groups):
    return [[segment.size_bytes for segment in group] for group in groups]


def test_neighbors_are_joined_while_they_fit():
    groups = group_segments(segments(400, 500, 200, 900, 1, 1_000), 600, 1_000, 1_000)
    assert sizes_of(groups) == [[400, 500], [200], [900, 1], [1_000]]


def test_a_segment_larger_than_the_limit_is_cleaned_alone():
    assert sizes_of(group_segments(segments(10, 5_000, 10), 300, 1_000, 1_000)) == [
        [10],
        [5_000],
        [10],
    ]


def test_indexes_must_fit_too():
    assert sizes_of(group_segments(segments(1, 1, 1), 300, 1_000, 25)) == [[1, 1], [1]]


def test_offsets_must_fit_into_32_bits():
    far = MAX_INT32 // 2 + 2
    assert sizes_of(group_segments(segments(1, 2, 3, step=far), 3 * far, 100, 100)) == [
        [1],
        [2],
        [3],
    ]
    # An empty segment has no offsets: it may join whatever its number.
    assert sizes_of(group_segments(segments(1, 0, 3, step=far), 3 * far, 100, 100)) == [[1, 0], [3]]


@given(st.lists(st.integers(0, 300), max_size=200), st.integers(1, 1_000))
def test_groups_are_all_segments_in_order(sizes, limit):
    given_segments = segments(*sizes)
    groups = group_segments(given_segments, len(sizes) * 100, limit, 10_000)
    assert [segment for group in groups for segment in group] == given_segments
    for group in groups:
        assert 1 <= len(group) <= GROUP_MAX
        assert len(group) == 1 or sum(one.size_bytes for one in group) <= limit
