"""The plan of a run: new records of the topic that the windows belong to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.rollup.engines import LOCAL, SPARK, engine
from cluster.analytics.rollup.offset_ranges import OffsetRange, TopicRanges
from cluster.analytics.rollup.plan import (
    is_other_cluster,
    plan,
    records_in,
    slices,
    stream_start,
)
from cluster.analytics.windows.manifest import FormerTopic, Progress


def topic(*ranges: tuple[int, int], topic_id: str | None = "id") -> TopicRanges:
    return TopicRanges(
        "metrics",
        topic_id,
        tuple(OffsetRange(number, *each) for number, each in enumerate(ranges)),
    )


def progress(*offsets: int, topic_id: str | None = "id") -> Progress:
    return Progress("metrics", topic_id, dict(enumerate(offsets)), cluster_id="here")


def test_the_first_run_reads_everything():
    chosen = plan(None, topic((5, 9), (0, 0)), whole=False)
    assert chosen.ranges == (OffsetRange(0, 5, 9),)
    assert (chosen.lost, chosen.is_other_topic) == (0, False)
    assert chosen.start.offsets == {0: 5, 1: 0}


def test_a_later_run_reads_what_is_new_and_partitions_that_were_added():
    chosen = plan(progress(7, 4), topic((0, 9), (0, 4), (0, 2)), whole=False)
    assert chosen.ranges == (OffsetRange(0, 7, 9), OffsetRange(2, 0, 2))
    assert chosen.start.cluster_id == "here", "known, although nobody tells now"


def test_plan_is_empty_without_new_records():
    assert plan(progress(9), topic((3, 9)), whole=False).ranges == ()


def test_plan_covers_everything_on_request():
    assert plan(progress(7), topic((2, 9)), whole=True).ranges == (OffsetRange(0, 2, 9),)


def test_plan_counts_records_removed_by_retention():
    chosen = plan(progress(7, 7), topic((10, 12), (0, 8)), whole=False)
    assert chosen.lost == 3
    assert chosen.ranges == (OffsetRange(0, 10, 12), OffsetRange(1, 7, 8))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (progress(7), topic((0, 9), topic_id="other")),
        (progress(7, topic_id=None), topic((0, 6))),
        (progress(7), topic((0, 6), topic_id=None)),
        (progress(3, 3, topic_id=None), topic((0, 9))),
    ],
    ids=["another id", "a lower end", "an id no longer told", "fewer partitions"],
)
def test_recreated_topic_is_read_from_its_start(before, now):
    chosen = plan(before, now, whole=False)
    assert chosen.is_other_topic
    assert chosen.ranges == now.ranges
    assert chosen.lost == 0
    assert chosen.start.former_topics == (FormerTopic(before.topic_id, before.offsets),)
    assert chosen.start.topic_id == now.topic_id


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), min_size=1, max_size=4),
    st.integers(1, 100),
)
def test_parts_hold_every_offset_once_in_order(spans, most):
    now = topic(*((start, start + size) for start, size in spans))
    chosen = plan(None, now, whole=False)
    reached = dict(chosen.start.offsets)
    for ranges, after in slices(chosen, most):
        assert records_in(ranges) <= most + len(spans)
        for each in ranges:
            assert reached[each.partition] == each.start
            reached[each.partition] = each.end
        assert after.offsets == reached
    assert reached == {each.partition: each.end for each in now.ranges}


def test_a_stream_begins_where_the_windows_end_so_that_it_counts_what_was_removed():
    now = topic((5, 9), (0, 4), (2, 3))
    before = progress(3, 4)
    start = stream_start(before, plan(before, now, whole=False))
    assert start.offsets == {0: 3, 1: 4, 2: 2}
    assert stream_start(None, plan(None, now, whole=False)).offsets == {0: 5, 1: 0, 2: 2}
    again = progress(3, 4, topic_id="another")
    assert stream_start(again, plan(again, now, whole=False)).offsets == {0: 5, 1: 0, 2: 2}


def test_another_cluster_is_detected_by_its_id():
    assert is_other_cluster(progress(3), topic((0, 3))._replace(cluster_id="elsewhere"))
    assert not is_other_cluster(progress(3), topic((0, 3))._replace(cluster_id="here"))
    assert not is_other_cluster(progress(3), topic((0, 3)))
    assert not is_other_cluster(None, topic((0, 3))._replace(cluster_id="here"))


@pytest.mark.parametrize(
    ("records", "delta_rows", "expected"),
    [
        (1_000_000, 0, LOCAL),
        (1_000_001, 0, SPARK),
        (0, 2_000_000, LOCAL),
        (0, 2_000_001, SPARK),
    ],
)
def test_spark_is_chosen_for_many_records(records, delta_rows, expected):
    assert engine(records, delta_rows) == expected
