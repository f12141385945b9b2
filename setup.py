"""Compiles the hot modules by mypyc and the walk over records, which is C, where that can be done;
else their source is installed, and the walk that is written in Python.

Everything else about the package stands in pyproject.toml. MILENA_COMPILE=0 leaves compiling out,
MILENA_COMPILE=1 makes a failure to compile an error (for building wheels). MILENA_COMPILE_LEVEL=0
takes half the time and makes slower modules (for tests).
"""

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # pip runs this file with another one

from cluster.compilation.compiler import missing_compiler  # noqa: E402

WISH = os.environ.get("MILENA_COMPILE", "")
LEVEL = os.environ.get("MILENA_COMPILE_LEVEL", "3")
MYPY_OPTIONS = [
    "--config-file=",  # the project's strictness is for its checks, not for users' machines
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--python-version=3.11",
]


def extensions() -> list[Extension]:
    """The compiled modules; none where the means are missing."""
    if WISH == "0":
        return []
    missing = missing_compiler()
    if missing is not None:
        return without(missing)
    walk = Extension("cluster.records._walk", ["cluster/records/_walk.c"], optional=WISH != "1")
    try:
        from mypyc.build import mypycify
    except ImportError as problem:
        return [walk, *without(str(problem))]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    modules = settings["tool"]["milena"]["compiled_modules"]
    paths = [f"cluster/{module}.py" for module in modules]
    try:
        made = mypycify([*MYPY_OPTIONS, *paths], opt_level=LEVEL, debug_level="1")
    except SystemExit as problem:  # how mypycify says that it failed
        return [walk, *without(f"mypyc: {problem}")]
    for extension in made:
        extension.optional = WISH != "1"
    return [walk, *made]


def without(reason: str) -> list[Extension]:
    """Say why nothing is compiled."""
    if WISH == "1":
        sys.exit(f"cannot compile: {reason}")
    sys.stderr.write(f"not compiled, plain Python is installed: {reason}\n")
    return []


setup(ext_modules=extensions())
