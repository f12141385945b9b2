"""What `--topic` and `--replica-assignment` mean."""

import pytest

from cluster.tools.arguments import UsageError
from cluster.tools.topics.choice import chosen_topics, may_collide, replica_assignment

NAMES = ["orders", "a.b", "axb", "audit"]


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        (None, ["a.b", "audit", "axb", "orders"]),
        ("orders", ["orders"]),
        ("order", []),
        ("a.*", ["a.b", "audit", "axb"]),
        ("orders, audit", ["audit", "orders"]),
        ("'audit'", ["audit"]),
    ],
)
def test_a_pattern_means_whole_names(pattern, chosen):
    assert chosen_topics(pattern, NAMES) == chosen


def test_a_name_that_exists_is_not_an_expression():
    assert chosen_topics("a.b", NAMES) == ["a.b"]
    assert chosen_topics("a.b", ["axb"]) == ["axb"]


def test_a_broken_expression_is_wrong_usage():
    with pytest.raises(UsageError, match="not a regular expression"):
        chosen_topics("a(", NAMES)


def test_names_that_metrics_confuse():
    assert [may_collide(name) for name in ("a.b", "a_b", "a-b")] == [True, True, False]


def test_replicas_are_listed_by_partition():
    assert replica_assignment("0:1,1:2,2:0") == [[0, 1], [1, 2], [2, 0]]


@pytest.mark.parametrize("text", ["", "0:x", "0:1,", "0;1"])
def test_an_assignment_of_anything_but_numbers_is_wrong_usage(text):
    with pytest.raises(UsageError, match="like 0:1,1:2"):
        replica_assignment(text)
