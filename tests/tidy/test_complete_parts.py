"""Parts of a broker are complete when they are made: nobody assigns callbacks to them later."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = sorted(
    path
    for top in ("brokers", "coordinator", "log", "quotas")
    for path in (ROOT / "cluster" / top).rglob("*.py")
)
OF_ONE_REQUEST: Final = {"on_close", "on_closed"}
"""What is to happen when a connection closes differs with each of its requests."""


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def completions(module: ast.Module) -> Iterator[str]:
    """Where a callback is assigned to another object, or a listener put into its list."""
    for node in ast.walk(module):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            targets = [node.func.value] if node.func.attr in ("append", "extend") else []
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and not is_own(target.value)
                and (
                    target.attr.startswith(("on_", "before_"))
                    or target.attr.endswith(("listener", "listeners"))
                )
                and target.attr not in OF_ONE_REQUEST
            ):
                yield f"line {target.lineno}: {ast.unparse(target)}"


def test_no_part_is_completed_from_outside() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {each}"
        for path in MODULES
        for each in completions(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "a.on_view = b",
        "a.b.on_c = d",
        "a.b.listener = c",
        "a.listeners.append(b)",
        "a.role_listeners += [b]",
        "a.before_append.append(b)",
    ],
)
def test_a_completion_is_found(text: str) -> None:
    assert len(list(completions(ast.parse(text)))) == 1
