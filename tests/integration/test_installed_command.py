"""`pip install .` in an environment of one's own, used outside the source tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import __version__
from tests.compat.installing import may_install

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not may_install(), reason="installs from the package index; MILENA_TEST_INSTALL=1 allows it"
    ),
]


def without_paths() -> dict[str, str]:
    """The environment, without what makes this source tree importable."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With an environment `venv` in which `pip install .` has been done in a copy of the source."""
    folder = tmp_path_factory.mktemp("elsewhere")
    source = folder / "source"
    shutil.copytree(
        ROOT / "cluster", source / "cluster", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=300)
    done = subprocess.run(
        [folder / "venv" / "bin" / "pip", "install", "--quiet", "."],
        cwd=source,
        env={**without_paths(), "MILENA_COMPILE": "0"},  # a matter of its own, and of minutes
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(source)
    return folder


def test_installed_command_prints_its_version_and_has_its_dependencies(folder):
    bin_folder = folder / "venv" / "bin"
    done = subprocess.run(
        [bin_folder / "milena", "--version"],
        cwd=folder,
        env=without_paths(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == (f"milena {__version__} (plain Python)\n", "")
    subprocess.run([bin_folder / "pip", "check"], check=True, timeout=120, capture_output=True)


def test_a_cluster_starts_serves_and_stops(folder, new_cluster):
    cluster = new_cluster(installed=folder / "venv" / "bin" / "milena")
    cluster.start()
    assert [broker["state"] for broker in cluster.status()["brokers"]] == ["running"] * 3
    cluster.command("topics", "--create", "--topic", "orders", "--partitions", "3")
    assert (
        "PartitionCount: 3" in cluster.command("topics", "--describe", "--topic", "orders").stdout
    )
    cluster.stop()
    assert cluster.command("status", check=False).returncode == 1


def test_package_data_is_installed(folder):
    (installed,) = folder.glob("venv/lib/python*/site-packages/cluster")
    for path in (ROOT / "cluster").rglob("*"):
        # codegen is for maintainers, who have the source; what is built of C is another file there.
        if path.suffix in (".c", ".so"):
            continue
        if path.is_file() and not {"__pycache__", "codegen"} & set(path.parts):
            assert (installed / path.relative_to(ROOT / "cluster")).exists(), path
