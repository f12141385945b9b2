"""Builds in a folder: which is current, which may be removed, what a killed one leaves."""

import os
import shutil
from pathlib import Path

import pytest

from cluster.compilation.build_files import BuildFiles, present_python, stamp_of
from cluster.compilation.manifest import Manifest, Source
from cluster.compilation.sources import digest


@pytest.fixture
def files(tmp_path) -> BuildFiles:
    (tmp_path / ".venv").mkdir()
    (tmp_path / "a.py").write_text("A = 1\n")
    return BuildFiles(tmp_path)


def sources_of(files: BuildFiles) -> dict[str, Source]:
    path = files.root / "a.py"
    stamp = stamp_of(str(path))
    assert stamp is not None
    return {"a.py": Source(stamp, digest("a.py", path.read_bytes()))}


def make_build(files: BuildFiles, python: str | None = None) -> Manifest:
    lock = files.hold_lock(waits=False)
    assert lock is not None
    folder = files.new_folder()
    built = folder / "built"
    built.mkdir()
    (built / "a.so").write_text("code")
    stamp = stamp_of(str(built / "a.so"))
    assert stamp is not None
    manifest = Manifest(
        files.name_of(folder),
        python or present_python(),
        {"a": "a.so"},
        sources_of(files),
        {"a.so": stamp},
    )
    files.finish(manifest, built)
    folder.rmdir()
    os.close(lock)
    return manifest


def builds(files: BuildFiles) -> list[str]:
    return sorted(each.name for each in files.folder.iterdir() if each.name.startswith("build-"))


def test_without_a_build_there_are_no_modules(files):
    assert files.modules() == {}
    assert files.current() is None
    assert files.failed() is None
    assert not files.is_building()


def test_a_complete_build_of_the_present_sources_is_current(files):
    manifest = make_build(files)
    assert files.current() == manifest
    assert files.modules() == {"a": str(files.folder / "build-1" / "a.so")}


def test_a_changed_source_makes_a_build_outdated_until_the_change_is_undone(files):
    make_build(files)
    (files.root / "a.py").write_text("A = 2\n")
    assert files.current() is None
    (files.root / "a.py").write_text("A = 1\n")
    assert files.current() is not None
    assert files.current() == Manifest(
        "build-1", present_python(), {"a": "a.so"}, sources_of(files), files.current().built
    ), "the new time is remembered"


def test_a_build_without_one_of_its_files_is_not_used(files):
    make_build(files)
    (files.folder / "build-1" / "a.so").unlink()
    assert files.current() is None


def test_a_build_for_another_python_is_not_used(files):
    make_build(files, python="another")
    assert files.current() is None
    assert files.modules() == {}


@pytest.mark.parametrize("text", ["", "garbage\n", "folder\tbuild-1\n\nsource\tx\n", "\0"])
def test_a_damaged_manifest_is_no_build(files, text):
    make_build(files)
    (files.folder / "manifest").write_text(text)
    assert files.current() is None
    assert files.modules() == {}


def test_a_new_build_removes_old_ones_unless_a_process_uses_them(files):
    used = files.hold(make_build(files))
    assert used is not None
    make_build(files)
    assert builds(files) == ["build-1", "build-2"]
    os.close(used)
    make_build(files)
    assert builds(files) == ["build-3"]


def test_a_build_that_was_removed_cannot_be_held(files):
    first = make_build(files)
    make_build(files)
    assert files.hold(first) is None


def test_one_build_is_made_at_a_time(files):
    lock = files.hold_lock(waits=False)
    assert lock is not None
    assert files.is_building()
    assert files.hold_lock(waits=False) is None
    os.close(lock)
    assert not files.is_building()


def test_a_lock_in_a_folder_that_was_removed_is_not_that_of_the_new_one(files):
    lock = files.hold_lock(waits=False)
    assert lock is not None
    assert files.owns(lock)
    shutil.rmtree(files.folder)
    assert not files.owns(lock)
    other = files.hold_lock(waits=False)
    assert other is not None
    assert files.owns(other)
    assert not files.owns(lock)
    os.close(lock)
    os.close(other)


def test_a_killed_build_leaves_nothing_that_is_used(files):
    files.folder.mkdir()
    folder = files.new_folder()
    (folder / "half").write_text("x")
    assert files.current() is None
    assert [each.name for each in files.new_folder().iterdir()] == []
    assert not (folder / "half").exists()


def test_a_failed_build_is_remembered_until_its_sources_change_or_one_succeeds(files):
    files.folder.mkdir()
    failed = Manifest("", present_python(), {}, sources_of(files)).failed("no room")
    files.fail(failed)
    assert files.failed() == failed
    (files.root / "a.py").write_text("A = 2\n")
    assert files.failed() is None
    (files.root / "a.py").write_text("A = 1\n")
    make_build(files)
    assert files.failed() is None


def test_a_folder_that_cannot_be_written_has_no_lock(tmp_path):
    files = BuildFiles(tmp_path / "missing")
    with pytest.raises(OSError, match="No such file"):
        files.hold_lock(waits=False)


def test_builds_are_numbered_on(files):
    make_build(files)
    Path(files.folder / "build-7").mkdir()
    make_build(files)
    assert builds(files) == ["build-8"]
