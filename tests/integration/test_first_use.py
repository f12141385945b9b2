"""What bin/cluster does before its first command: .venv, made from a package index of our own."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from cluster.compilation.compiler import missing_compiler
from tests.support.project_copy import ROOT, WheelFolder, copy_project, run

pytestmark = pytest.mark.slow
UV = Path(sys.executable).parent / "uv"


@pytest.fixture
def project(tmp_path) -> Path:
    """A project that needs one package, `tiny`."""
    return copy_project(tmp_path / "project")


@pytest.fixture
def wheels(tmp_path, project) -> WheelFolder:
    """Has the package, but no uv."""
    folder = WheelFolder(tmp_path / "wheels")
    require(project, "core", folder.add("tiny", {"tiny.py": b"size = 1\n"}))
    return folder


def require(project: Path, name: str, requirement: str) -> None:
    (project / "etc" / "requirements" / f"{name}.txt").write_text(requirement)


def start(project: Path, wheels: WheelFolder, **env: str) -> subprocess.CompletedProcess[str]:
    return run(project / "bin" / "cluster", "status", cwd=project, **{**wheels.settings, **env})


def tiny_of(project: Path) -> Path:
    (module,) = project.glob(".venv/lib/python*/site-packages/tiny.py")
    return module


def test_pip_installs_everything_when_the_index_has_no_uv(project, wheels):
    ran = start(project, wheels)
    assert (ran.returncode, ran.stdout) == (0, "status\n"), ran.stderr
    assert "Installing core with pip" in ran.stderr
    assert tiny_of(project).read_text() == "size = 1\n"


@pytest.mark.long
def test_a_python_without_pip_uses_the_copy_for_new_environments(project, wheels, tmp_path):
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    ran = start(project, wheels, PATH=f"{bare / 'bin'}:{os.environ['PATH']}")
    assert (ran.returncode, ran.stdout) == (0, "status\n"), ran.stderr
    assert tiny_of(project).read_text() == "size = 1\n"


@pytest.mark.skipif(not UV.exists(), reason="bin/test has not installed uv here")
def test_uv_looks_where_pip_is_configured_to_look(project, wheels, tmp_path):
    require(project, "uv", wheels.add("uv", {"uv-1.0.data/scripts/uv": UV.read_bytes()}))
    ran = start(project, wheels, UV_CACHE_DIR=str(tmp_path / "uv_cache"))
    assert (ran.returncode, ran.stdout) == (0, "status\n"), ran.stderr
    assert "Installing core with uv" in ran.stderr
    assert ran.stderr.count("with pip") == 1, ran.stderr
    assert tiny_of(project).read_text() == "size = 1\n"


@pytest.mark.long
def test_pip_installs_everything_when_uv_does_not_run(project, wheels):
    require(project, "uv", wheels.add("uv", {"uv-1.0.data/scripts/uv": b"for another machine"}))
    ran = start(project, wheels)
    assert (ran.returncode, ran.stdout) == (0, "status\n"), ran.stderr
    assert "Installing core with pip" in ran.stderr


def test_a_package_with_another_checksum_is_not_installed(project, wheels):
    wheels.add("tiny", {"tiny.py": b"size = 2\n"})
    ran = start(project, wheels)
    assert ran.returncode == 1
    assert ran.stderr.endswith("Fix the above and try again.\n")
    assert not list(project.glob(".venv/lib/python*/site-packages/tiny.py"))


def test_two_first_uses_at_once_install_once(project, wheels):
    both = [
        subprocess.Popen(
            [project / "bin" / "cluster", "status"],
            env={**os.environ, **wheels.settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    spoken = [each.communicate(timeout=240) for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert [out for out, _ in spoken] == ["status\n"] * 2
    assert sum(err.count("Creating .venv") for _, err in spoken) == 1
    assert sum(err.count("Installing core") for _, err in spoken) == 1


@pytest.mark.long
def test_an_interrupted_first_use_is_made_again(project, wheels):
    start(project, wheels)
    left_over = project / ".venv" / "left over"
    left_over.touch()
    (project / ".venv" / ".unfinished-core").touch()
    ran = start(project, wheels)
    assert ran.returncode == 0
    assert ran.stderr.startswith("Creating .venv (again: the last attempt was interrupted)")
    assert not left_over.exists()


@pytest.mark.long
def test_an_interrupted_extra_set_is_installed_over_and_the_rest_stays(project, wheels):
    require(project, "more", wheels.add("more", {"more.py": b"size = 3\n"}))
    start(project, wheels)
    need_more = 'here=bin; . bin/lib/venv.sh; need_installed core more; "$python" -c "import more"'
    run(Path("/bin/sh"), "-c", need_more, cwd=project, **wheels.settings)
    (more,) = project.glob(".venv/lib/python*/site-packages/more.py")
    more.unlink()
    (project / ".venv" / ".installed-more").unlink()
    (project / ".venv" / ".unfinished-more").touch()
    ran = run(Path("/bin/sh"), "-c", need_more, cwd=project, **wheels.settings)
    assert ran.returncode == 0, ran.stderr
    assert "Creating" not in ran.stderr
    assert more.exists()


def test_first_use_reports_a_missing_package_index(project):
    ran = start(project, WheelFolder(project.parent / "empty"))
    assert ran.returncode == 1
    assert ran.stderr.endswith("Fix the above and try again.\n")
    assert not (project / ".venv" / ".installed-core").exists()


C_SOURCE = ROOT / "cluster" / "records" / "_walk.c"


@pytest.fixture
def with_c(project, wheels) -> WheelFolder:
    """The project has the module that is C as well."""
    (project / "cluster" / "records").mkdir()
    shutil.copy(C_SOURCE, project / "cluster" / "records")
    return wheels


def built_in(project: Path) -> list[Path]:
    return [path for path in (project / "cluster" / "records").iterdir() if path.suffix == ".so"]


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_c_module_is_compiled_once_and_when_its_source_changes(project, with_c):
    ran = start(project, with_c)
    assert (ran.returncode, ran.stdout) == (0, "status\n"), ran.stderr
    assert "Compiling _walk.c" in ran.stderr
    (built,) = built_in(project)
    walked = subprocess.run(
        [project / ".venv/bin/python", "-c", "import _walk; print(_walk.walk(b'', 1)[0])"],
        env={**os.environ, "PYTHONPATH": str(built.parent)},
        capture_output=True,
        text=True,
    )
    assert walked.stdout == "1\n", walked.stderr
    assert start(project, with_c).stderr == ""
    source = built.parent / "_walk.c"
    source.write_text(source.read_text() + "/* changed */\n")
    assert "Compiling _walk.c" in start(project, with_c).stderr


def test_cluster_starts_without_a_compiler(project, with_c):
    (project / "cluster" / "records" / "_walk.c").write_text("this is no C")
    ran = start(project, with_c)
    assert (ran.returncode, ran.stdout) == (0, "status\n"), ran.stderr
    assert "the same in Python is used" in ran.stderr
    assert built_in(project) == []
    assert start(project, with_c).stderr == ""
