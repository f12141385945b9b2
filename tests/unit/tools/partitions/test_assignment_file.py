"""The JSON of kafka-reassign-partitions: what is read of it, and what is refused in one line."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.client.topic_requests import Place
from cluster.model.errors import UserError
from cluster.tools.partitions.assignment_file import (
    Replica,
    assignment_text,
    read_assignment,
    read_topics,
)
from tests.support.examples import examples


def a_file(directory: Path, content: object) -> Path:
    path = directory / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def row(**fields: object) -> dict[str, object]:
    return {"topic": "t", "partition": 0, "replicas": [1, 2], **fields}


def test_a_file_with_log_directories_is_read(tmp_path: Path) -> None:
    rows = [row(log_dirs=["any", "/disk2"]), row(partition=1, replicas=[3])]
    found = read_assignment(a_file(tmp_path, {"version": 1, "partitions": rows}))
    assert found.replicas == {("t", 0): (1, 2), ("t", 1): (3,)}
    assert found.directories == {Replica(2, "t", 0): "/disk2"}
    assert str(Replica(2, "t", 0)) == "t-0-2"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nonsense", "is not JSON"),
        ([], "a list `partitions` is missing"),
        ({"partitions": []}, "the list `partitions` is empty"),
        ({"partitions": [row()], "version": 2}, "version must be 1, not 2"),
        ({"partitions": [7]}, r"partitions\[0\] is not an object"),
        ({"partitions": [row(topic=None)]}, "topic must be a name"),
        ({"partitions": [row(partition=-1)]}, "partition must be a whole number"),
        ({"partitions": [row(), row(replicas=[3])]}, r"partitions\[1\]: t-0 is there twice"),
        ({"partitions": [row(replicas=[])]}, r"\(t-0\): replicas must be a list with at least one"),
        ({"partitions": [row(replicas="1,2")]}, "replicas must be a list"),
        ({"partitions": [row(replicas=[1, "2\n"])]}, r"replicas has 2\\n, which is no broker id"),
        ({"partitions": [row(replicas=[1, True])]}, "replicas has True"),
        ({"partitions": [row(replicas=[-1])]}, "replicas has -1"),
        ({"partitions": [row(replicas=[2, 1, 2])]}, "replicas names a broker twice: 2,1,2"),
        ({"partitions": [row(log_dirs=["any"])]}, "as long as replicas: 2, not 1"),
        ({"partitions": [row(log_dirs=["any", 1])]}, "log_dirs must be a list of paths"),
        ({"partitions": [row(log_dirs="any")]}, "log_dirs must be a list of paths"),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused(
    tmp_path: Path, content: object, reason: str
) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        read_assignment(a_file(tmp_path, content))
    assert "\n" not in str(raised.value)


def test_topics_are_read_once_each(tmp_path: Path) -> None:
    topics = [{"topic": "b"}, {"topic": "a"}]
    assert read_topics(a_file(tmp_path, {"topics": topics, "version": 1})) == ["b", "a"]
    with pytest.raises(UserError, match=r"topics\[2\]: a is there twice"):
        read_topics(a_file(tmp_path, {"topics": [*topics, {"topic": "a"}]}))


def test_the_text_of_an_assignment_is_kafkas() -> None:
    assert assignment_text({Place("b", 0): (1, 2), Place("a", 10): (3,), Place("a", 9): (4,)}) == (
        '{"version":1,"partitions":['
        '{"topic":"a","partition":9,"replicas":[4],"log_dirs":["any"]},'
        '{"topic":"a","partition":10,"replicas":[3],"log_dirs":["any"]},'
        '{"topic":"b","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )


@given(
    replicas=st.dictionaries(
        st.builds(Place, st.text("ab.-_", min_size=1), st.integers(0, 99)),
        st.lists(st.integers(0, 2**31 - 1), min_size=1, unique=True).map(tuple),
        min_size=1,
    )
)
@examples(60)
def test_the_text_of_an_assignment_is_read_again(
    replicas: dict[Place, tuple[int, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = a_file(tmp_path_factory.getbasetemp(), assignment_text(replicas))
    assert read_assignment(path) == (replicas, {})
