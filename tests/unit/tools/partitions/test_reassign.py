"""The options of `partitions reassign`, and what it says of moves between log directories."""

from pathlib import Path

import pytest

from cluster.tools.main import main
from cluster.tools.partitions.assignment_file import Replica
from cluster.tools.partitions.log_dir_moves import MoveState

FILE = ["--reassignment-json-file", "f"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--list", "--verify", *FILE],
        ["--execute"],
        ["--verify"],
        ["--cancel"],
        ["--generate", "--broker-list", "0"],
        ["--generate", "--topics-to-move-json-file", "f"],
        ["--generate", "--topics-to-move-json-file", "f", "--broker-list", "0,0"],
        ["--generate", "--topics-to-move-json-file", "f", "--broker-list", "0,x"],
        ["--generate", "--topics-to-move-json-file", "f", "--broker-list", "0", *FILE],
        ["--list", *FILE],
        ["--list", "--timeout", "0"],
        ["--verify", *FILE, "--throttle", "0"],
        ["--execute", *FILE, "--preserve-throttles"],
        ["--execute", *FILE, "--throttle", "fast"],
        ["--cancel", *FILE, "--additional"],
    ],
)
def test_options_that_do_not_fit_the_action_are_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(["partitions", "reassign", *words])
    except SystemExit as ended:  # argparse's own
        status = ended.code
    assert status == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("action", ["--execute", "--verify", "--cancel"])
def test_a_file_that_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    words = [action, "--reassignment-json-file", str(tmp_path / "nowhere")]
    assert main(["partitions", "reassign", *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: cannot read ")


@pytest.mark.parametrize(
    ("state", "is_over", "words"),
    [
        (
            MoveState(None, None, "/b"),
            False,
            "Partition t-0 is not found in any live log dir on broker 1. There is likely an"
            " offline log directory on the broker.",
        ),
        (
            MoveState("/a", "/b", "/b"),
            False,
            "Reassignment of replica t-0-1 is still in progress.",
        ),
        (
            MoveState("/a", "/c", "/b"),
            False,
            "Partition t-0 on broker 1 is being moved to log dir /c instead of /b.",
        ),
        (
            MoveState("/a", None, "/b"),
            True,
            "Partition t-0 on broker 1 is not being moved from log dir /a to /b.",
        ),
        (
            MoveState("/b", None, "/b"),
            True,
            "Reassignment of replica t-0-1 completed successfully.",
        ),
    ],
)
def test_the_states_of_moves_have_kafkas_words(state: MoveState, is_over: bool, words: str) -> None:
    assert state.line(Replica(1, "t", 0)) == words
    assert state.is_over is is_over
