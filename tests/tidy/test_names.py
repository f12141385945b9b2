"""Names that say nothing and notes to oneself stay out."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "cluster").rglob("*.py"))
SAY_NOTHING = frozenset(
    {"manager", "helper", "helpers", "util", "utils", "common", "base", "data", "info", "misc"}
)
NOTES_TO_ONESELF = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def last_word(name: str) -> str:
    """`TopicManager` and `topic_manager` are both managers."""
    return re.findall(r"[A-Z]+[a-z0-9]*|[a-z0-9]+", name)[-1].lower()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_classes_are_named_for_what_they_are(path):
    tree = ast.parse(path.read_text())
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = [path.parent.name if path.stem.startswith("__") else path.stem, *classes]
    assert not [name for name in names if last_word(name) in SAY_NOTHING]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_there_are_no_notes_to_oneself(path):
    assert not NOTES_TO_ONESELF.search(path.read_text())
