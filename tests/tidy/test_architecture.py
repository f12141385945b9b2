"""The folder table and the test references of ARCHITECTURE.md are true."""

import os
import re
from collections import Counter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()


def folder_rows() -> list[str]:
    """The folders that the table has a row for, in its order."""
    return re.findall(r"^\| `(cluster/[a-z_/]+)/` \|", TEXT, re.MULTILINE)


def row_of(module: str, rows: list[str]) -> str | None:
    """The row whose folder the module is in; None for a module that lies in `cluster/` itself."""
    path = module.replace(".", "/")
    return max((row for row in rows if f"{path}/".startswith(f"{row}/")), key=len, default=None)


def test_the_folder_table_has_one_row_for_each_folder_with_modules_of_its_own():
    present = {
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / "cluster").glob("*/**/*.py")
        if path.name != "__init__.py"
    }
    assert sorted(folder_rows()) == sorted(present)


def test_a_folder_imports_only_from_rows_above_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and one inside it may import each other: each command uses what all commands do."""
    monkeypatch.syspath_prepend(ROOT)
    graph = grimp.build_graph("cluster", cache_dir=None)
    rows = folder_rows()
    downwards = {
        f"{importer} -> {imported}"
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if (own := row_of(importer, rows)) and (other := row_of(imported, rows))
        if rows.index(other) > rows.index(own)
        if os.path.commonpath([own, other]) not in (own, other)
    }
    assert downwards == set()


def test_every_test_it_names_exists():
    named = set(re.findall(r"`(tests/[a-z_/]+(?:\.py)?)`", TEXT))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_module_it_names_is_where_it_says():
    """A name is a path below the root or `cluster/`, or a file name that only one module has."""
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
