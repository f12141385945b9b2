"""The shell side of bin/cluster: finds its project, trusts its stamp, asks for nothing twice."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.project_copy import copy_project, run


@pytest.fixture
def project(tmp_path) -> Path:
    return copy_project(tmp_path / "project")


def pretend_installed(project: Path) -> None:
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(
        project / "etc" / "requirements" / "core.txt", project / ".venv" / ".installed-core"
    )


def test_launcher_runs_from_any_folder_and_through_links_with_its_arguments_unchanged(
    project, tmp_path
):
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


def test_launcher_says_what_to_install_when_python_is_missing(project, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "readlink", "dirname", "cat", "cmp"):
        (tools / name).symlink_to(shutil.which(name) or name)
    ran = run(project / "bin" / "cluster", "status", cwd=project, PATH=str(tools))
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in ran.stderr
