"""Meaningless names (`manager`, `utils`) and notes such as TODO are not allowed."""

import ast
import re
from pathlib import Path

from tests.support.sources import definitions

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "cluster").rglob("*.py"))
SAY_NOTHING = frozenset(
    {"manager", "helper", "helpers", "util", "utils", "common", "base", "data", "info", "misc"}
)
NOTES_TO_ONESELF = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def last_word(name: str) -> str:
    """The last word of a name, in lower case: `manager` for `TopicManager` and `topic_manager`."""
    return re.findall(r"[A-Z]+[a-z0-9]*|[a-z0-9]+", name)[-1].lower()


def name_of(path: Path) -> str:
    """The path relative to the project's root."""
    return str(path.relative_to(ROOT))


def named_in(path: Path) -> list[str]:
    """The module and its classes; a package's own module is named by its folder."""
    classes = [
        node.name
        for node in definitions(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    return [path.parent.name if path.stem.startswith("__") else path.stem, *classes]


def test_modules_and_classes_are_named_for_what_they_are():
    offenders = [
        f"{name_of(path)}: {name}"
        for path in MODULES
        for name in named_in(path)
        if last_word(name) in SAY_NOTHING
    ]
    assert offenders == []


def test_modules_hold_no_todo_notes():
    offenders = [
        f"{name_of(path)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if NOTES_TO_ONESELF.search(line)
    ]
    assert offenders == []
