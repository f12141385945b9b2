"""What is foreign is escaped in one place for logs, and in one for terminals."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "cluster").rglob("*.py"))


def calls(path: Path) -> set[str]:
    """The dotted names of everything that a module calls."""
    return {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    }


def modules_that_call(*names: str) -> set[str]:
    words = [name.rpartition(".")[2] for name in names]
    return {
        str(path.relative_to(ROOT))
        for path in MODULES
        if mentions(path, *words) and calls(path) & set(names)
    }


def mentions(path: Path, *words: str) -> bool:
    """Whether it is worth the time to analyse a module."""
    text = path.read_text()
    return any(word in text for word in words)


def test_every_formatter_of_a_log_is_the_one_that_escapes():
    assert modules_that_call("logging.Formatter", "Formatter", "logging.basicConfig") == set()
    assert modules_that_call("LineFormatter") == {
        "cluster/runtime/logs.py",
        "cluster/analytics/rollup/spark_session.py",
    }


def test_every_handler_of_a_log_gets_it():
    makers = ("logging.FileHandler", "logging.StreamHandler", "LogFile")
    assert modules_that_call(*makers) == modules_that_call("handler.setFormatter")


@pytest.mark.parametrize(
    "entry", ["cluster/supervisor/supervise.py", "cluster/supervisor/processes.py"]
)
def test_the_supervisor_and_its_children_log_through_it(entry):
    assert "logs.configure" in calls(ROOT / entry)


def test_a_console_of_rich_is_made_in_one_place():
    not_on_a_stream = {"cluster/supervisor/supervise.py", "cluster/runtime/text_table.py"}
    assert modules_that_call("Console") - not_on_a_stream == {"cluster/tools/terminal.py"}


def test_a_live_display_is_given_that_console():
    for path in MODULES:
        if not mentions(path, "Live"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Live":
                (given,) = [each.value for each in node.keywords if each.arg == "console"]
                assert ast.unparse(given).startswith("console(")
