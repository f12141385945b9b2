"""Which modules the import system takes from a build."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.compilation import finder
from cluster.compilation.build_files import BuildFiles, present_python, stamp_of
from cluster.compilation.finder import SHARED_LIBRARY, BuildFinder, is_first_process, use_build
from cluster.compilation.manifest import Manifest, Source
from cluster.compilation.sources import digest

LIBRARY = f"some{SHARED_LIBRARY}"


@pytest.fixture
def files(tmp_path) -> BuildFiles:
    """A build of `one.py`, without a shared library."""
    source = tmp_path / "one.py"
    source.write_text("A = 1\n")
    files = BuildFiles(tmp_path)
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "one.so").touch()
    files.folder.mkdir(parents=True)
    finish(files, {"one": "one.so"})
    return files


def finish(files: BuildFiles, modules: dict[str, str]) -> None:
    source = files.root / "one.py"
    stamp = stamp_of(str(source))
    assert stamp is not None
    sources = {"one.py": Source(stamp, digest("one.py", source.read_bytes()))}
    manifest = Manifest("build-1", present_python(), modules, sources)
    files.finish(manifest, files.root / "built")


def finder_of(files: BuildFiles) -> BuildFinder:
    return BuildFinder(files, files.modules())


def test_a_compiled_module_is_found_in_the_build_and_any_other_is_not(files):
    found = finder_of(files)
    spec = found.find_spec("one")
    assert spec is not None
    assert spec.origin == str(files.folder / "build-1" / "one.so")
    assert found.find_spec("two") is None


def test_no_module_is_found_once_a_source_has_changed(files):
    (files.root / "one.py").write_text("A = 20\n")
    assert finder_of(files).find_spec("one") is None


def test_sources_are_compared_when_the_first_module_is_imported(files):
    found = finder_of(files)
    assert found.find_spec("one") is not None
    (files.root / "one.py").write_text("A = 20\n")
    assert found.find_spec("one") is not None, "all modules of a process are of one build"


def test_a_shared_library_that_cannot_be_loaded_leaves_plain_python(files, monkeypatch):
    other = BuildFiles(files.root)
    (files.root / "built").mkdir()
    (files.root / "built" / "some.so").write_text("for another machine")
    (files.root / "built" / "one.so").touch()
    for each in (files.folder / "build-1").iterdir():
        each.unlink()
    (files.folder / "build-1").rmdir()
    finish(other, {LIBRARY: "some.so", "one": "one.so"})
    found = finder_of(other)
    monkeypatch.setattr(sys, "meta_path", [found, *sys.meta_path])
    assert found.find_spec("one") is None
    failed = other.failed()
    assert failed is not None
    assert failed.problem.startswith(f"cannot load {LIBRARY}: ")


@pytest.fixture
def import_system(monkeypatch, files) -> Sequence[object]:
    """The finders of a process in whose checkout there is the build."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(finder, "BuildFiles", lambda: files)
    monkeypatch.setattr(finder, "_first_process", None)
    return sys.meta_path


@pytest.mark.parametrize("wish", [None, "0"])
def test_a_process_that_was_not_asked_runs_source(import_system, monkeypatch, wish):
    monkeypatch.delenv("MILENA_COMPILE")
    if wish is not None:
        monkeypatch.setenv("MILENA_COMPILE", wish)
    before = list(import_system)
    use_build()
    assert import_system == before
    assert not is_first_process()


def test_the_process_of_the_launcher_uses_builds_and_may_make_one(import_system, monkeypatch):
    monkeypatch.setenv("MILENA_COMPILE", "auto")
    use_build()
    assert isinstance(import_system[0], BuildFinder)
    assert is_first_process()


def test_processes_that_a_command_starts_use_builds_and_make_none(import_system, monkeypatch):
    monkeypatch.setenv("MILENA_COMPILE", "auto")
    use_build()
    assert os.environ["MILENA_COMPILE"] == "use"
    monkeypatch.setattr(finder, "_first_process", None)
    use_build()
    assert isinstance(import_system[0], BuildFinder)
    assert not is_first_process()


def test_without_a_build_the_import_system_stays_as_it_is(import_system, monkeypatch, tmp_path):
    monkeypatch.setattr(finder, "BuildFiles", lambda: BuildFiles(Path(tmp_path / "no checkout")))
    monkeypatch.setenv("MILENA_COMPILE", "auto")
    before = list(import_system)
    use_build()
    assert import_system == before
