"""Programs of Debian's packages: those that are installed, or unpacked into the cache."""

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat.installing import CACHE, may_install, need_beyond_pypi, one_at_a_time


class Program(NamedTuple):
    """A program that can be run."""

    path: str
    environment: dict[str, str]
    """With the libraries that were unpacked together with it."""


def debian_program(name: str, package: str, *libraries: str) -> Program:
    """A program of a package; `libraries` are packages that it needs and a Debian may not have.

    Where tests may install software they are downloaded, and unpacked without any service of
    theirs, once. Skips the test where there is no such program.
    """
    need_beyond_pypi(name)
    found = shutil.which(name)
    if found is not None:
        return Program(found, dict(os.environ))
    directory = _unpacked(package, *libraries)
    path = directory / "usr" / "bin" / name
    if not path.exists():
        pytest.skip(f"{name} is not installed (Debian's package {package})")
    places = {str(each.parent) for each in directory.glob("usr/lib/**/*.so*")}
    return Program(str(path), {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(places))})


@functools.cache
def _unpacked(*packages: str) -> Path:
    directory = CACHE / packages[0]
    if directory.exists() or not may_install() or shutil.which("apt-get") is None:
        return directory
    with one_at_a_time(packages[0]):
        if not directory.exists():
            draft = directory.with_name(f"{directory.name}.new")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            if _download(draft, *packages):
                for file in draft.glob("*.deb"):
                    subprocess.run(["dpkg", "-x", file, draft], check=True, capture_output=True)
                draft.rename(directory)
    return directory


def _download(directory: Path, *packages: str) -> bool:
    """Whether they are there now; the lists of packages may have to be fetched first."""
    download = ["apt-get", "download", *packages]
    for command in (download, ["apt-get", "update"], download):
        done = subprocess.run(command, cwd=directory, capture_output=True, check=False)
        if command is download and done.returncode == 0:
            return True
    return False


def kcat() -> Program:
    """kcat, with the librdkafka of that Debian. Skips the test where there is none."""
    return debian_program("kcat", "kcat", "librdkafka1", "libyajl2")
