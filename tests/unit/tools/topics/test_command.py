"""`topics`: which options go together, before any broker is asked."""

import pytest

from cluster.tools.main import main


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--create"], "--create needs --topic"),
        (["--delete"], "--delete needs --topic"),
        (["--alter", "--topic", "t"], "--alter needs --partitions"),
        (["--list", "--if-exists"], "--if-exists does not go with --list"),
        (["--delete", "--topic", "t", "--json"], "--json does not go with --delete"),
        (
            ["--describe", "--config", "retention.ms=1"],
            "--config does not go with --describe",
        ),
        (
            ["--create", "--topic", "t", "--replica-assignment", "0", "--partitions", "1"],
            "--replica-assignment does not go with --partitions",
        ),
        (
            ["--alter", "--topic", "t", "--replica-assignment", "0", "--partitions", "2"],
            "--replica-assignment must list every partition",
        ),
        (["--create", "--topic", "t", "--replica-assignment", "x"], "like 0:1,1:2"),
        (
            ["--list", "--at-min-isr-partitions"],
            "--at-min-isr-partitions does not go with --list",
        ),
        (
            ["--describe", "--topics-with-overrides", "--under-min-isr-partitions"],
            "--topics-with-overrides does not go with --under-min-isr-partitions",
        ),
    ],
)
def test_options_that_do_not_go_together_are_status_2(words, reason, capsys):
    assert main(["topics", *words]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--list", "--describe"],
        ["--create", "--topic", "t", "--partitions", "0"],
        ["--create", "--topic", "t", "--config", "retention.ms"],
    ],
)
def test_options_that_cannot_be_read_are_status_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["topics", *words])
    assert ended.value.code == 2


def test_without_a_cluster_there_is_one_line_that_says_what_to_do(tmp_path, capsys):
    assert main(["--data-dir", str(tmp_path), "topics", "--list"]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert error.startswith("error: no cluster is running in ")
    assert "start`" in error
