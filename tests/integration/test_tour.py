"""The commands of the README and of docs/tour.md work in their order, in a fresh checkout.

They name the usual ports, so they run in a network of their own.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.page_commands import OWN_NETWORK, borrowing_checkout, script_of

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
DEADLINE_S = 240


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    made = borrowing_checkout(tmp_path / "milena")
    yield made
    shutil.rmtree(made / "var", ignore_errors=True)  # a cluster that a failure left ends by this


@pytest.fixture(autouse=True)
def _own_network() -> None:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("a network of its own needs the command unshare of Linux")
    tried = subprocess.run([*OWN_NETWORK, "ip", "link", "set", "lo", "up"], capture_output=True)
    if tried.returncode != 0:
        pytest.skip(f"no network of its own: {tried.stderr.decode().strip()}")


def walk(page: Path, checkout: Path) -> str:
    """Everything that the commands of a page print."""
    script = checkout / "walk.sh"
    script.write_text("ip link set lo up\n" + script_of(page))
    environment = {name: value for name, value in os.environ.items() if name != "MILENA_DATA_DIR"}
    ran = subprocess.run(
        [*OWN_NETWORK, "bash", script],
        cwd=checkout,
        env={**environment, "MILENA_COMPILE": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def test_readme_tour_throttles_a_client_and_loses_no_record(checkout: Path) -> None:
    printed = walk(ROOT / "README.md", checkout)
    assert "0 lost, 0 duplicates, 0 out of order" in printed
    assert list(checkout.glob("*.txt")) == []


@pytest.mark.long
def test_long_tour_works_in_its_order(checkout: Path) -> None:
    printed = walk(ROOT / "docs" / "tour.md", checkout)
    assert " 0 lost" in printed
