"""What takes long to load, and most clusters do not need, is not loaded when one starts."""

import subprocess
import sys

import pytest

HEAVY = ("cryptography", "jwt", "pyspark", "pandas", "starlette", "uvicorn", "confluent_kafka")


@pytest.mark.parametrize("module", ["cluster.tools.main", "cluster.launch.start"])
def test_heavy_packages_are_loaded_only_where_they_are_used(module: str) -> None:
    program = f"import sys, {module}; print(*sorted(sys.modules.keys() & set({HEAVY!r})))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.split() == []
