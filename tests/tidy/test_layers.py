"""Every module has its place in the layers that import-linter checks, and imports go one way."""

import graphlib
import subprocess
import sys
from importlib.util import find_spec

import grimp
import pytest

from tests.support.layers import ROOT, contracts, lowest_first
from tests.support.lone_imports import OPTIONAL, modules_of


def packages_of(module: str) -> set[str]:
    """`a` and `a.b` for `a.b.c`."""
    parts = module.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def loaded_by(module: str, graph: grimp.ImportGraph) -> set[str]:
    """What Python loads before it has loaded the module: its imports, and the packages of these."""
    imported = graph.find_modules_directly_imported_by(module)
    return imported.union(*map(packages_of, imported)) - {module, *packages_of(module)}


def test_every_contract_of_layers_fails_for_a_module_in_no_layer():
    assert [each["name"] for each in contracts() if not each.get("exhaustive")] == []


def test_every_module_is_in_a_layer():
    present = {
        str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
        for path in (ROOT / "cluster").rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    assert present - {name for layer in lowest_first() for name in modules_of(layer)} == set()


def test_no_modules_import_each_other_in_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    graph = grimp.build_graph("cluster", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: loaded_by(module, graph) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(" -> ".join(reversed(circle.args[1])))


@pytest.mark.long
@pytest.mark.slow
def test_each_module_can_be_imported_by_itself():
    command = [sys.executable, "-m", "tests.support.lone_imports"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == ""
    missing = [name for name in sorted(OPTIONAL) if find_spec(name) is None]
    if missing:
        pytest.skip(f"modules that need {missing} were left out")


def test_every_folder_says_what_it_is_for():
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "cluster").rglob("__init__.py")
        if not path.read_text().startswith('"""')
    ]
    assert silent == []
