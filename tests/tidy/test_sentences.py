"""Docstrings and names of tests are sentences; tests do not sleep."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

FRAGMENT: Final = re.compile(r"(See|Of|As|From|By|Both|In order|In place|In the order|To)\b")
"""How a docstring begins that has no subject, no verb, or only points elsewhere."""

RIDDLE: Final = re.compile(
    r"test_(and|as|in|it|nobody|nothing|of|somebody|that|they|what|whatever|where|who|whoever)_"
)
"""How the name of a test begins that does not say what is tested."""

SLEEPS: Final = {
    "tests/compat/test_sasl_clients.py": 3,  # lets a session expire while clients go on
    "tests/integration/test_quotas.py": 1,  # a client that obeys the throttle times it is told
    "tests/support/echoing_helper.py": 1,  # a process that does nothing until it is killed
    "tests/support/waiting.py": 1,  # polls with a deadline, for all other tests
    "tests/unit/dashboard/test_http_connection.py": 1,  # a browser that reads slowly
}
"""The calls of `sleep` in each module of tests, except for `sleep(0)`."""


@functools.cache
def parsed(top: str) -> list[tuple[str, ast.Module]]:
    """Each module below a folder, with its path."""
    paths = sorted((ROOT / top).rglob("*.py"))
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths]


def fragments(name: str, module: ast.Module) -> Iterator[str]:
    """The docstrings that are no sentences."""
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring and FRAGMENT.match(docstring):
                yield f"{name}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"


def names_of_tests(name: str, module: ast.Module) -> Iterator[str]:
    """The tests of a module, by their names."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield f"{name}::{node.name}"


def is_sleep(node: ast.AST) -> bool:
    """Whether this calls `time.sleep` or `asyncio.sleep` with anything but 0."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("sleep", "time.sleep", "asyncio.sleep")
        and [ast.unparse(argument) for argument in node.args] != ["0"]
    )


@pytest.mark.parametrize("top", ["cluster", "tests"])
def test_docstrings_are_sentences(top: str) -> None:
    found = [each for name, module in parsed(top) for each in fragments(name, module)]
    assert not found, "\n".join(found)


def test_names_of_tests_say_what_is_tested():
    names = [each for name, module in parsed("tests") for each in names_of_tests(name, module)]
    found = [each for each in names if RIDDLE.match(each.partition("::")[2])]
    assert not found, "\n".join(found)


def test_tests_wait_for_conditions_and_do_not_sleep():
    sleeps = Counter(
        name for name, module in parsed("tests") for node in ast.walk(module) if is_sleep(node)
    )
    assert sleeps == SLEEPS
