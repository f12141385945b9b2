"""How a missing extra is installed, in each kind of installation."""

import sys
from pathlib import Path

import pytest

from cluster.model.errors import UserError
from cluster.tools import extra_packages
from cluster.tools.extra_packages import install_command, need_extra


@pytest.fixture
def prefix(tmp_path, monkeypatch) -> Path:
    """An environment whose pip is the first on the search path."""
    pip = tmp_path / "venv" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    monkeypatch.setenv("PATH", str(pip.parent))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "venv"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (None, "'milena[rollup]'"),
        ("", "'.[rollup]'"),
        ("checkout", "'checkout[rollup]'"),
        ("milena-1.0-py3-none-any.whl", "'milena-1.0-py3-none-any.whl[rollup]'"),
    ],
)
def test_extra_is_installed_from_where_milena_was(source, wanted, prefix):
    path = None if source is None else prefix.parent / source
    assert install_command("rollup", prefix, path) == f"pip install {wanted}"


def test_pip_of_another_environment_is_called_by_its_python(prefix, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    told = install_command("rollup", prefix, None)
    assert told == f"{sys.executable} -m pip install 'milena[rollup]'"


def test_pipx_installs_an_extra_by_installing_again(prefix):
    (prefix / "pipx_metadata.json").write_text("{}")
    assert install_command("rollup", prefix, None) == "pipx install --force 'milena[rollup]'"


def test_missing_module_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(extra_packages, "_LIBRARY", Path("/missing"))
    with pytest.raises(UserError, match=r"no_such_module is missing: .* install '.*\[rollup\]'"):
        need_extra("rollup", "no_such_module")
