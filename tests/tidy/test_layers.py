"""Every folder of `cluster/` has its place in the layers that import-linter checks."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def placed(contract_name: str) -> set[str]:
    """The last part of every module that the contract names."""
    (layers,) = [each["layers"] for each in CONTRACTS if each["name"] == contract_name]
    return {
        name.strip().strip("()").removeprefix("cluster.")
        for layer in layers
        for name in layer.split("|")
    }


def packages(folder: Path) -> set[str]:
    """The packages directly below a folder."""
    return {entry.name for entry in folder.iterdir() if (entry / "__init__.py").exists()}


def modules(folder: Path) -> set[str]:
    """The modules directly in a folder."""
    return {entry.stem for entry in folder.glob("*.py") if entry.stem != "__init__"}


@pytest.mark.parametrize(
    ("folder", "contract_name"),
    [
        ("cluster", "A folder imports only what stands below it here"),
        ("cluster/analytics", "Inside the analytics"),
        ("cluster/brokers", "Inside one broker"),
        ("cluster/coordinator", "Inside the coordinators"),
    ],
)
def test_a_new_folder_must_be_placed(folder, contract_name):
    assert packages(ROOT / folder) - placed(contract_name) == set()


def test_a_module_at_the_top_must_be_placed():
    contract_name = "A folder imports only what stands below it here"
    assert modules(ROOT / "cluster") - placed(contract_name) == set()


def test_every_folder_says_what_it_is_for():
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "cluster").rglob("__init__.py")
        if not path.read_text().startswith('"""')
    ]
    assert silent == []
