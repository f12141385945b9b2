"""Every command of the table has its module, its help and an example."""

import importlib

import pytest

from cluster.tools.capacity.subcommands import CAPACITY_COMMANDS
from cluster.tools.commands import COMMANDS
from cluster.tools.groups.subcommands import GROUP_COMMANDS
from cluster.tools.main import main
from cluster.tools.partitions.subcommands import PARTITION_COMMANDS
from cluster.tools.quotas.subcommands import QUOTA_COMMANDS
from cluster.tools.transactions.subcommands import TRANSACTION_COMMANDS

SUB_COMMANDS = [
    *(("capacity", name) for name in CAPACITY_COMMANDS),
    *(("groups", name) for name in GROUP_COMMANDS),
    *(("partitions", name) for name in PARTITION_COMMANDS),
    *(("quotas", name) for name in QUOTA_COMMANDS),
    *(("transactions", name) for name in TRANSACTION_COMMANDS),
    *(("users", name) for name in ("add", "alter", "delete", "list")),
]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_a_command_has_a_module_and_help_with_an_example(command, capsys):
    module = importlib.import_module(f"cluster.tools.{command.module}")
    assert callable(module.run)
    with pytest.raises(SystemExit) as ended:
        main([command.name, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "example" in text
    assert f"bin/cluster {command.name}" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(("command", "name"), SUB_COMMANDS)
def test_a_sub_command_has_help_with_an_example(command, name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, name, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"bin/cluster {command} {name}" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_without_a_command_there_is_help_and_status_2(capsys):
    assert main([]) == 2
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert max(map(len, text.splitlines())) <= 100


def test_a_command_without_a_cluster_says_so_in_one_line(tmp_path, capsys):
    for words in (["status"], ["stop"], ["kill", "0"], ["restart", "0"], ["stop", "--purge"]):
        assert main(["--data-dir", str(tmp_path), *words]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1


def test_options_that_contradict_each_other_are_wrong_usage(capsys):
    assert main(["kill", "0", "--signal", "STOP", "--stay-down"]) == 2
    assert "does not go with" in capsys.readouterr().err
