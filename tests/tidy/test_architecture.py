"""The folder table and the test references of ARCHITECTURE.md are true."""

import re
from collections import Counter
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


def test_every_module_it_names_is_where_it_says():
    """By its path below the root or `cluster/`; a bare name must be that of one module alone."""
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", TEXT))
    paths = [
        path.relative_to(ROOT)
        for top in ("cluster", "tests")
        for path in (ROOT / top).rglob("*.py")
    ]
    present = {str(path) for path in paths} | {str(path).removeprefix("cluster/") for path in paths}
    bare = Counter(path.name for path in paths if path.parts[0] == "cluster")
    wrong = [name for name in named if name not in present and bare[name] != 1]
    assert wrong == []
