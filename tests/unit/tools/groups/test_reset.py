"""Targets of a reset: partitions, times, durations, bounds and files."""

import pytest

from cluster.client.topic_requests import Place
from cluster.tools.arguments import UsageError
from cluster.tools.groups import reset
from cluster.views.groups.new_offsets import within

COUNTS = {"orders": 3, "audit": 1}
A, B = Place("orders", 0), Place("orders", 1)


@pytest.mark.parametrize(
    ("topics", "places"),
    [
        (["orders"], [("orders", 0), ("orders", 1), ("orders", 2)]),
        (["orders:2,0", "audit"], [("orders", 2), ("orders", 0), ("audit", 0)]),
        (["orders:1", "orders:1"], [("orders", 1)]),
    ],
)
def test_partitions_are_named_as_for_kafkas_tool(topics, places):
    assert reset.chosen_places(topics, COUNTS) == places


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("none", "no topic none"),
        ("orders:3", "no partition 3"),
        ("orders:", "not valid"),
        ("orders:x", "not valid"),
    ],
)
def test_a_missing_topic_or_partition_is_a_usage_error(topic, reason):
    with pytest.raises(UsageError, match=reason):
        reset.chosen_places([topic], COUNTS)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("2024-01-01T00:00:00.000Z", 1_704_067_200_000),
    ],
)
def test_a_time_is_in_utc_unless_it_says_otherwise(text, timestamp_ms):
    assert reset.timestamp_of(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("PT1S", 1_000), ("P1DT2H3M4.5S", 93_784_500), ("P7D", 604_800_000), ("PT0S", 0)],
)
def test_durations_are_those_of_iso_8601(text, duration_ms):
    assert reset.duration_of(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "P-1D", "yesterday"])
def test_other_texts_are_no_durations_and_no_times(text):
    with pytest.raises(UsageError):
        reset.duration_of(text)
    with pytest.raises(UsageError):
        reset.timestamp_of(text)


def test_offsets_outside_a_partition_are_moved_to_its_nearer_end():
    offsets, warnings = within({A: 1, B: 99}, {A: 5, B: 5}, {A: 10, B: 10})
    assert offsets == {A: 5, B: 10}
    assert len(warnings) == 2
    assert within({A: 7}, {A: 5}, {A: 10}) == ({A: 7}, [])


def test_exported_offsets_are_read_back():
    offsets = {Place("orders", 1): 5, Place('odd,"name"', 0): 7}
    assert reset.from_csv(reset.as_csv(offsets, None), "file", ["g"]) == {"g": offsets}
    of_two = reset.as_csv(offsets, "g") + reset.as_csv({A: 1}, "h")
    assert "g,orders,1,5\n" in of_two
    assert reset.from_csv(of_two, "file", ["g", "h"]) == {"g": offsets, "h": {A: 1}}
    assert reset.from_csv(of_two, "file", []) == {"g": offsets, "h": {A: 1}}


def test_a_duration_of_millions_of_years_is_wrong_usage():
    for text in ("P1000000000D", "PT1" + "0" * 400 + "S"):
        with pytest.raises(UsageError, match="too long"):
            reset.duration_of(text)


@pytest.mark.parametrize("text", ["orders,0", "orders,x,1", "orders,0,1,2", "x" * 140_000])
def test_a_bad_line_is_named(text):
    with pytest.raises(UsageError, match=r"plan\.csv, line 2"):
        reset.from_csv(f"orders,0,1\n{text}\n", "plan.csv", ["g"])
    with pytest.raises(UsageError, match="it must be group,topic,partition,offset"):
        reset.from_csv("orders,0,1\n", "plan.csv", [])
