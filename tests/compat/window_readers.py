"""Runs the common readers of Parquet in an environment of their own, with reader_packages."""

import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.compat.installing import CACHE, may_install, one_at_a_time

_HERE: Final = Path(__file__).parent
_REQUIREMENTS: Final = _HERE / "reader_packages" / "requirements.txt"
_PROGRAM: Final = _HERE / "reader_program.py"
_INSTALL_DEADLINE_S: Final = 600.0
_DEADLINE_S: Final = 300.0


def run_readers(jobs: Sequence[dict[str, Any]]) -> list[Any]:
    """The results of jobs for `reader_program.py`. Skips the running test without the packages."""
    python, problem = _environment()
    if python is None:
        pytest.skip(problem)
    done = subprocess.run(
        [python, _PROGRAM],
        input=json.dumps(jobs),
        env={**_without_paths(), "TZ": "America/New_York"},  # results must not depend on it
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@functools.cache
def _environment() -> tuple[Path | None, str]:
    """The Python of an environment with the packages, installed once at most; or the reason."""
    version = "{}.{}".format(*sys.version_info)
    digest = hashlib.sha256(version.encode() + _REQUIREMENTS.read_bytes()).hexdigest()[:12]
    place = CACHE / f"reader_packages-{digest}"
    python = place / "bin" / "python"
    if place.exists():
        return python, ""
    if not may_install():
        return None, "pandas, DuckDB and Polars are not here; MILENA_TEST_INSTALL=1 installs them"
    with (
        one_at_a_time("reader_packages"),
        tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as workshop,
    ):
        if place.exists():
            return python, ""
        made = Path(workshop) / "environment"
        for command in (
            [sys.executable, "-m", "venv", str(made)],
            [str(made / "bin" / "python"), "-m", "pip", "install", "-q", "-r", str(_REQUIREMENTS)],
        ):
            done = subprocess.run(
                command,
                env=_without_paths(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_INSTALL_DEADLINE_S,
                check=False,
            )
            if done.returncode:
                return None, f"cannot install pandas, DuckDB and Polars: {done.stderr[-500:]}"
        made.rename(place)  # atomic, so the cache never holds half an environment
    return python, ""


def _without_paths() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
