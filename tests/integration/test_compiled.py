"""The hot modules compiled by mypyc: their own unit tests hold for them as well."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import __version__
from cluster.compilation.compiler import missing_compiler

ROOT = Path(__file__).parents[2]
UNIT: Path = Path("tests/unit")
TESTS_OF_COMPILED_MODULES = [
    str(UNIT / place)
    for place in (
        *(
            "records/test_batch.py",
            "records/test_produced.py",
            "records/test_renumber.py",
            "records/test_walk.py",
            "records/test_producer_walk.py",
        ),
        *("protocol/test_framing.py", "protocol/test_produce_codec.py"),
        *("protocol/test_fetch_codec.py", "protocol/test_fetch_request.py"),
        *(
            "log",
            "quotas",
            "brokers/throttling",
            "brokers/network",
            "brokers/dispatch",
        ),
        *(
            "brokers/replication/test_leader_replica.py",
            "brokers/replication/test_leader_fetches.py",
            "brokers/replication/test_throttled_fetches.py",
        ),
        *(
            "brokers/replication/test_partition_table.py",
            "brokers/replication/test_replica_roles.py",
        ),
        *("brokers/handlers/test_produce.py", "brokers/handlers/test_fetch.py"),
        *("brokers/coordinators", "coordinator/transactions", "records/test_markers.py"),
        *("brokers/test_calls_per_request.py", "brokers/storage/test_log_retention.py"),
    )
]
"""Those of the modules themselves, and of what calls them without much else."""
OTHERS = "tests/unit/log/cleaner"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.beyond_pypi,
    pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler())),
]


def run(folder: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in the compiled copy, without the environment variables of this pytest run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-P", *words],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder), "MILENA_COMPILE": "1", "MILENA_COMPILE_LEVEL": "0"},
        input=text,
        capture_output=True,
        text=True,
        timeout=1200,
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose hot modules are compiled in place."""
    folder: Path = tmp_path_factory.mktemp("compiled") / "source"
    folder.mkdir()
    for name in ("bench", "cluster", "docs", "etc", "tests"):
        ignored = shutil.ignore_patterns("*.so")  # byte code stays, valid by the sources' times
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "ARCHITECTURE.md"):
        shutil.copy(ROOT / name, folder)
    done = run(folder, "setup.py", "--quiet", "build_ext", "--inplace")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_version_tells_that_the_modules_are_compiled(compiled: Path) -> None:
    done = run(compiled, "-m", "cluster", "--version")
    assert done.stdout == f"milena {__version__} (compiled)\n"


def test_the_walk_over_records_is_the_compiled_one(compiled: Path) -> None:
    done = run(
        compiled, "-c", "from cluster.records.walk import *; print(IS_COMPILED, walk(b'', 1))"
    )
    assert done.stdout == "True (1, 0, 0, 0, -1, 0)\n"


def test_a_traceback_through_compiled_modules_names_their_lines(compiled: Path) -> None:
    done = run(compiled, "-c", "from cluster.records.batch import read_header; read_header(b'')")
    assert "cluster/records/batch.py" in done.stderr
    assert "in read_header" in done.stderr


def test_brokers_of_compiled_modules_replicate_and_serve_records(compiled: Path) -> None:
    ports = ("--port", "0", "--registry-port", "0", "--dashboard-port", "0")
    done = run(compiled, "-m", "cluster", "start", "--detach", "--brokers", "2", *ports)
    assert done.returncode == 0, done.stderr
    try:
        for words, text, said in (
            (("status",), "", "Runs compiled."),
            (("topics", "--create", "--topic", "t", "--replication-factor", "2"), "", ""),
            (("produce", "--topic", "t"), "hello\n", ""),
            (("consume", "--topic", "t", "--from-beginning", "--max-messages", "1"), "", "hello\n"),
        ):
            done = run(compiled, "-m", "cluster", *words, text=text)
            assert done.returncode == 0, done.stderr
            assert said in done.stdout
    finally:
        done = run(compiled, "-m", "cluster", "stop")
    assert done.returncode == 0, done.stderr


def test_the_unit_tests_of_the_compiled_modules_pass_with_them(compiled: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "--hypothesis-profile", "fast", "-m", "not slow")
    done = run(compiled, "-m", "pytest", *options, *TESTS_OF_COMPILED_MODULES, "--ignore", OTHERS)
    assert done.returncode == 0, done.stdout + done.stderr
