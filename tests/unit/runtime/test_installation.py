"""The name of the command line: what was called, in every command that is printed."""

import os
import sys
from pathlib import Path

import pytest

from cluster.runtime.installation import launcher, remember_called
from cluster.tools.main import main


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """An installed command `milena`, which is not on the path."""
    monkeypatch.setenv("MILENA_CALLED", "")  # so that it is as before at the end
    monkeypatch.delenv("MILENA_CALLED")
    command = tmp_path / "bin" / "milena"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    return command


def test_launcher_is_the_installed_command_if_that_was_called(installed, monkeypatch):
    monkeypatch.setenv("PATH", str(installed.parent))
    remember_called(str(installed))
    assert launcher() == "milena"
    assert launcher(Path("/a b")) == "milena --data-dir '/a b'"


def test_launcher_is_the_path_of_an_installed_command_outside_the_search_path(
    installed, monkeypatch
):
    monkeypatch.setenv("PATH", "/usr/bin")
    remember_called(str(installed))
    assert launcher() == str(installed)
    monkeypatch.chdir(installed.parents[1])
    assert launcher() == "bin/milena"


def test_launcher_is_that_of_the_checkout_otherwise(installed, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    os.environ["MILENA_CALLED"] = "milena"  # of a process that started this one
    remember_called("/x/cluster/__main__.py")
    assert launcher() == "bin/cluster"


@pytest.mark.parametrize(
    ("words", "status"), [(["topcis"], 2), (["topics", "--help"], 0), (["help", "topics"], 0)]
)
def test_help_and_errors_name_the_installed_command(words, status, installed, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", [str(installed), *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == status
    out, err = capsys.readouterr()
    assert "milena topics create orders" in out if status == 0 else "milena --help" in err
    assert "bin/cluster" not in out + err
