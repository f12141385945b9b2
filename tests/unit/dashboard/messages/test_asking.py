"""Questions of a page: what they mean, and which are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.dashboard.messages.asking import (
    InvalidQuestion,
    Start,
    cursor_text,
    partition_of,
    place,
    question,
    start_of,
)


def test_a_question_without_choices_is_for_the_newest_of_all_partitions() -> None:
    found = question({"topic": "orders"})
    assert (found.partition, found.start, found.needle, found.match) == (
        None,
        Start("newest"),
        "",
        "any",
    )
    assert (found.is_committed_only, found.limit, found.is_backward) == (False, 50, True)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("newest", Start("newest")),
        ("beginning", Start("beginning")),
        (" 17 ", Start("offset", 17)),
        ("9223372036854775807", Start("offset", 2**63 - 1)),
        ("2026-01-31T18:00Z", Start("time", 1_769_882_400_000)),
        ("2026-01-31T18:00", Start("time", 1_769_882_400_000)),
        ("2026-01-31T19:00:00.5+01:00", Start("time", 1_769_882_400_500)),
        ("1969-12-31T23:59:59.999Z", Start("time", 0)),
        ("0001-01-01T00:00", Start("time", 0)),
    ],
)
def test_start(text: str, start: Start) -> None:
    assert start_of(text) == start


@pytest.mark.parametrize("text", ["", "soon", "-1", "9223372036854775808", "٣", "1e3", "2026-99"])
def test_start_that_cannot_be_understood(text: str) -> None:
    with pytest.raises(InvalidQuestion) as refused:
        start_of(text)
    assert refused.value.field == "from"


@pytest.mark.parametrize("text", ["x", "-1", "2147483648", "1.5"])
def test_partition_that_is_no_number(text: str) -> None:
    with pytest.raises(InvalidQuestion, match="Not the number of a partition"):
        partition_of(text)


@pytest.mark.parametrize(
    ("given_options", "field"),
    [
        ({"topic": ""}, "topic"),
        ({"from": "5"}, "partition"),
        ({"filter": "x" * 501}, "filter"),
        ({"match": "nowhere"}, "match"),
        ({"isolation": "serializable"}, "isolation"),
        ({"limit": "1000000"}, "limit"),
        ({"before": "0.1;1.2"}, "before"),
        ({"after": "0.1," * 20_000}, "after"),
    ],
)
def test_refused_options_name_their_field(given_options: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidQuestion) as refused:
        question({"topic": "orders", **given_options})
    assert refused.value.field == field


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), min_size=1))
def test_cursors_are_read_as_they_are_written(cursor: dict[int, int]) -> None:
    asked = question({"topic": "orders", "after": cursor_text(cursor)})
    assert asked.after == cursor
    assert not asked.is_backward
    assert question({"topic": "orders", "from": "beginning", "before": "0.1"}).is_backward


def test_a_record_has_a_whole_place() -> None:
    assert place({"topic": "a", "partition": "0", "offset": "7"}) == ("a", 0, 7)
    assert place({"topic": "a", "partition": "0", "offset": str(2**63 - 1)})[2] == 2**63 - 1
    wrong = [{name: ""} for name in ("topic", "partition", "offset")]
    wrong += ({"offset": text} for text in ("newest", "-1", str(2**63)))
    for each in wrong:
        with pytest.raises(InvalidQuestion, match="a record has a topic"):
            place({"topic": "a", "partition": "0", "offset": "7", **each})
