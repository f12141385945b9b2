"""What `partitions elect-leaders` takes from its options and its file, and what it refuses."""

import json
from pathlib import Path

import pytest

from cluster.model.errors import UserError
from cluster.tools.main import main
from cluster.tools.partitions.elect_leaders import read_partitions


def a_file(directory: Path, content: object) -> Path:
    path = directory / "partitions.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def row(topic: object = "t", partition: object = 0) -> dict[str, object]:
    return {"topic": topic, "partition": partition}


def test_a_file_as_kafkas_tool_takes_it(tmp_path: Path) -> None:
    rows = [row(), row(partition=1), row("other")]
    assert read_partitions(a_file(tmp_path, {"partitions": rows})) == [
        ("t", 0),
        ("t", 1),
        ("other", 0),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "a list `partitions` is missing"),
        ({}, "a list `partitions` is missing"),
        ({"partitions": {}}, "a list `partitions` is missing"),
        ({"partitions": "t-0"}, "a list `partitions` is missing"),
        ({"partitions": []}, "the list `partitions` is empty"),
        ({"partitions": [5]}, r"partitions\[0\] is not an object"),
        ({"partitions": [row(), row(topic=7)]}, r"partitions\[1\]: topic must be a name"),
        ({"partitions": [row(topic="")]}, "topic must be a name"),
        ({"partitions": [row(partition="0")]}, "partition must be a whole number from 0"),
        ({"partitions": [row(partition=True)]}, "partition must be a whole number from 0"),
        ({"partitions": [row(partition=2**31)]}, "partition must be a whole number from 0"),
        ({"partitions": [row("a\nb"), row("a\nb")]}, r"a\\nb-0 is there twice"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    tmp_path: Path, content: object, reason: str
) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        read_partitions(a_file(tmp_path, content))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        ["--all-topic-partitions"],
        ["--election-type", "preferred"],
        ["--election-type", "sudden", "--all-topic-partitions"],
        ["--election-type", "preferred", "--topic", "t"],
        ["--election-type", "preferred", "--partition", "0"],
        ["--election-type", "preferred", "--all-topic-partitions", "--partition", "0"],
        ["--election-type", "preferred", "--all-topic-partitions", "--topic", "t"],
        ["--election-type", "unclean", "--all-topic-partitions", "--path-to-json-file", "f"],
        ["--election-type", "unclean", "--topic", "t", "--partition", "-1"],
    ],
)
def test_options_that_say_too_little_or_too_much_are_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(["partitions", "elect-leaders", *words])
    except SystemExit as ended:  # argparse's own
        status = ended.code
    assert status == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_file_that_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "nowhere")
    words = ["--election-type", "PREFERRED", "--path-to-json-file", path]
    assert main(["partitions", "elect-leaders", *words]) == 1
    assert capsys.readouterr().err.startswith("error: cannot read ")


@pytest.mark.parametrize("option", ["--admin.config", "--command-config"])
def test_a_file_says_how_to_connect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=NOPE\n")
    words = ["--election-type", "preferred", "--all-topic-partitions", option, str(file)]
    assert main(["partitions", "elect-leaders", "--bootstrap-server", "localhost:1", *words]) == 2
    assert "NOPE" in capsys.readouterr().err
