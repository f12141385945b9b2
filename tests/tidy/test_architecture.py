"""The folder table and the test references of ARCHITECTURE.md are true."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()


def test_the_folder_table_is_complete_and_current():
    listed = set(re.findall(r"^\| `(cluster/[a-z_/]+)/` \|", TEXT, re.MULTILINE))
    containers = {"cluster/coordinator", "cluster/coordinator/registry"}
    present = {
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / "cluster").glob("**/__init__.py")
        if path.parent != ROOT / "cluster"
    }
    inner = {folder for folder in present if folder == "cluster/protocol/messages"}
    assert listed == present - containers - inner


def test_every_test_it_names_exists():
    named = set(re.findall(r"`(tests/[a-z_/]+(?:\.py)?)`", TEXT))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_module_it_names_exists():
    named = set(re.findall(r"`((?:[a-z]+/)*[a-z_]+\.py)`", TEXT))
    present = {path.name for path in (ROOT / "cluster").rglob("*.py")}
    present |= {path.name for path in (ROOT / "tests").rglob("*.py")}
    assert [name for name in named if Path(name).name not in present] == []
