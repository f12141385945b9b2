"""The shell side of bin/cluster: finds its project, trusts its stamp, asks for nothing twice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path) -> Path:
    """A copy of the launchers over a `cluster` package that says how it was called."""
    copy = tmp_path / "project"
    shutil.copytree(ROOT / "bin", copy / "bin")
    (copy / "etc").mkdir()
    shutil.copy(ROOT / "etc" / "constraints.txt", copy / "etc")
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "cluster").mkdir()
    (copy / "cluster" / "__init__.py").touch()
    (copy / "cluster" / "__main__.py").write_text("import sys; print(*sys.argv[1:], sep='|')")
    return copy


def pretend_installed(project: Path) -> None:
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to(sys.executable)
    both = project.joinpath("pyproject.toml").read_bytes()
    both += project.joinpath("etc", "constraints.txt").read_bytes()
    stamp = subprocess.run(["cksum"], input=both, capture_output=True, check=True).stdout
    (project / ".venv" / ".installed-core").write_bytes(stamp)


def run(launcher: Path, *words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [launcher, *words],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_runs_from_anywhere_through_links_with_its_arguments_untouched(project, tmp_path):
    pretend_installed(project)
    link = tmp_path / "link"
    link.symlink_to("project/bin/cluster")
    (tmp_path / "cluster").mkdir()  # a folder of that name where one happens to be is not ours
    (tmp_path / "cluster" / "__main__.py").write_text("print('wrong')")
    ran = run(link, "produce", "two words", "*", cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("produce|two words|*\n", "")


def test_an_installed_project_needs_no_package_index(project):
    pretend_installed(project)
    ran = run(
        project / "bin" / "cluster", "status", cwd=project, PIP_NO_INDEX="1", PIP_FIND_LINKS=""
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "status\n", "")


def test_without_python_it_says_what_to_install(project, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "readlink", "dirname", "cat", "cksum"):
        (tools / name).symlink_to(shutil.which(name) or name)
    ran = run(project / "bin" / "cluster", "status", cwd=project, PATH=str(tools))
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in ran.stderr


@pytest.mark.slow
def test_an_interrupted_first_use_is_made_again(project):
    (project / ".venv").mkdir()
    (project / ".venv" / ".unfinished").touch()
    ran = run(
        project / "bin" / "cluster", "status", cwd=project, PIP_NO_INDEX="1", PIP_FIND_LINKS=""
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("Creating .venv (again: the last attempt was interrupted)")
    assert ran.stderr.endswith("Fix the above and try again.\n")
    assert not (project / ".venv" / ".installed-core").exists()
