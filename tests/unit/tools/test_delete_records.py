"""What `delete-records` takes from its options and its file, and what it refuses, in one line."""

import json
from pathlib import Path

import pytest

from cluster.model.errors import UserError
from cluster.tools.delete_records import read_offsets
from cluster.tools.main import main


def a_file(directory: Path, content: object) -> Path:
    path = directory / "offsets.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def row(topic: object = "t", partition: object = 0, offset: object = 5) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "offset": offset}


def test_a_file_as_kafkas_tool_takes_it(tmp_path: Path) -> None:
    rows = [row(), row(partition=1, offset=-1), row("other", offset=2**40)]
    expected = {("t", 0): 5, ("t", 1): -1, ("other", 0): 2**40}
    assert read_offsets(a_file(tmp_path, {"partitions": rows, "version": 1})) == expected
    assert read_offsets(a_file(tmp_path, {"partitions": rows})) == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "a list `partitions` is missing"),
        ({"version": 1}, "a list `partitions` is missing"),
        ({"partitions": {}}, "a list `partitions` is missing"),
        ({"partitions": [], "version": 2}, "version 2 is not supported"),
        ({"partitions": [5]}, r"partitions\[0\] is not an object"),
        ({"partitions": [row(), row(topic=7)]}, r"partitions\[1\]: topic must be a name"),
        ({"partitions": [row(partition="0")]}, "partition must be a whole number from 0"),
        ({"partitions": [row(partition=-1)]}, "partition must be a whole number from 0"),
        ({"partitions": [row(offset=-2)]}, "offset must be a whole number from -1"),
        ({"partitions": [row(offset=1.5)]}, "offset must be a whole number from -1"),
        ({"partitions": [row(offset=2**63)]}, "offset must be a whole number from -1"),
        ({"partitions": [row(), row(offset=6)]}, "t-0 is there twice"),
        ({"partitions": [row("a\nb"), row("a\nb")]}, r"a\\nb-0 is there twice"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    tmp_path: Path, content: object, reason: str
) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        read_offsets(a_file(tmp_path, content))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["delete-records", "--offset-json-file", str(tmp_path / "nowhere")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: cannot read ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--topic", "t", "--partition", "0"],
        ["--topic", "t", "--before-offset", "0"],
        ["--offset-json-file", "f", "--topic", "t"],
    ],
)
def test_options_that_say_too_little_or_too_much_are_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["delete-records", *words]) == 2
    assert "--offset-json-file" in capsys.readouterr().err
