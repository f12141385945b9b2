"""A module has at most 600 lines, a class at most 450 (aim at 250), so that each has one task."""

import ast
from pathlib import Path

from tests.support.sources import definitions

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "cluster").rglob("*.py"))
MODULE_LINES_MAX = 600
CLASS_LINES_MAX = 450

TABLES = {"cluster/config/broker.py"}
"""Pure tables may be as long as they need."""

GENERATED = "cluster/protocol/messages/"
"""One module per API, however many versions it has."""


def too_long(path: Path) -> list[str]:
    """The module, and the classes in it, that are."""
    name, text = str(path.relative_to(ROOT)), path.read_text()
    sizes = {
        f"{name}, class {node.name}": ((node.end_lineno or 0) - node.lineno + 1, CLASS_LINES_MAX)
        for node in definitions(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    }
    if name not in TABLES and not name.startswith(GENERATED):
        sizes[name] = (len(text.splitlines()), MODULE_LINES_MAX)
    return [f"{what}: {lines} lines" for what, (lines, most) in sizes.items() if lines > most]


def test_modules_and_classes_are_short():
    assert [offender for path in MODULES for offender in too_long(path)] == []
