"""The walk in C, compiled for the tests, whether the project's own modules are compiled or not."""

import importlib.util
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from cluster.compilation.compiler import missing_compiler

SOURCE = Path(__file__).parents[2] / "cluster" / "records" / "_walk.c"


def compile_walk(folder: Path) -> Any:
    """The module, built in `folder`. Skips the running test where that cannot be done."""
    problem = missing_compiler()
    if problem is not None:
        pytest.skip(problem)
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    include = Path(sysconfig.get_paths()["include"])
    built = folder / "_walk.so"
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{include}"]
    if shutil.which("xcrun") is not None:
        command += ["-undefined", "dynamic_lookup"]
    done = subprocess.run(
        [*command, str(SOURCE), "-o", str(built)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location("_walk", built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
