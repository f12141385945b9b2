"""The reason that a checkout runs plain Python, from what its folder of builds holds."""

import os

import pytest

from cluster.compilation import background_process
from cluster.compilation.build_files import BuildFiles, present_python, stamp_of
from cluster.compilation.manifest import Manifest, Source
from cluster.compilation.sources import digest
from cluster.compilation.variant import why_plain


@pytest.fixture
def files(tmp_path, monkeypatch) -> BuildFiles:
    """A checkout of one source, on a machine with a compiler."""
    for name in ("MILENA_COMPILE", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(background_process, "missing_compiler", lambda: None)
    (tmp_path / ".venv" / "compiled").mkdir(parents=True)
    (tmp_path / "a.py").touch()
    return BuildFiles(tmp_path)


def manifest_of(files: BuildFiles) -> Manifest:
    stamp = stamp_of(str(files.root / "a.py"))
    assert stamp is not None
    return Manifest("build-1", present_python(), {}, {"a.py": Source(stamp, digest("a.py", b""))})


def test_a_new_checkout_is_compiled_after_the_next_start(files):
    assert why_plain(files, "bin/cluster") == "compiled in the background after the next start"


def test_a_finished_build_is_used_by_the_next_start_even_if_its_lock_is_still_held(files):
    lock = files.hold_lock(waits=False)
    assert lock is not None
    assert why_plain(files, "bin/cluster") == "compiled modules are being built"
    built = files.root / "built"
    built.mkdir()
    files.finish(manifest_of(files), built)
    assert why_plain(files, "bin/cluster") == "the next start uses compiled modules"
    os.close(lock)


def test_a_failure_is_told_with_what_to_do_until_another_build_is_made(files):
    files.fail(manifest_of(files).failed("gcc ended by signal 9"))
    assert why_plain(files, "bin/cluster") == (
        "compiling failed: gcc ended by signal 9; see .venv/compiled/log, then try"
        " `bin/cluster compile`"
    )
    lock = files.hold_lock(waits=False)
    assert lock is not None
    assert why_plain(files, "bin/cluster") == "compiled modules are being built"
    os.close(lock)


def test_the_obstacle_to_a_build_is_named(files, monkeypatch, tmp_path):
    monkeypatch.setattr(background_process, "missing_compiler", lambda: "no C compiler: cc")
    assert why_plain(files, "bin/cluster") == "no C compiler: cc"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".venv").symlink_to(tmp_path / ".venv")
    linked = BuildFiles(tmp_path / "other")
    assert (
        why_plain(linked, "bin/cluster") == ".venv is a link, so builds would be another checkout's"
    )
    monkeypatch.setenv("CI", "true")
    assert why_plain(files, "bin/cluster") == "CI is set"
    monkeypatch.setenv("MILENA_COMPILE", "0")
    assert why_plain(files, "bin/cluster") == "MILENA_COMPILE=0"
