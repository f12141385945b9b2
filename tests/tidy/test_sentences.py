"""Docstrings and names of tests are sentences; tests do not sleep."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.sources import definitions

ROOT: Final = Path(__file__).parents[2]

FRAGMENT: Final = re.compile(r"(See|Of|As|From|By|Both|In order|In place|In the order|To)\b")
"""How a docstring begins that has no subject, no verb, or only points elsewhere."""

TEST: Final = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)

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


def sources(top: str) -> Iterator[tuple[str, str]]:
    """The path and the text of each module below a folder."""
    for path in sorted((ROOT / top).rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text()


def fragments(name: str, text: str) -> Iterator[str]:
    """The docstrings that are no sentences."""
    module = ast.parse(text)
    for node in (module, *definitions(module)):
        docstring = (ast.get_docstring(node, clean=False) or "").strip()
        if FRAGMENT.match(docstring):
            yield f"{name}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"


def is_sleep(node: ast.AST) -> bool:
    """Whether this calls `time.sleep` or `asyncio.sleep` with anything but 0."""
    return (
        isinstance(node, ast.Call)
        and "sleep" in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
        and ast.unparse(node.func) in ("sleep", "time.sleep", "asyncio.sleep")
        and [ast.unparse(argument) for argument in node.args] != ["0"]
    )


@pytest.mark.parametrize("top", ["cluster", "tests"])
def test_docstrings_are_sentences(top: str) -> None:
    found = [each for name, text in sources(top) for each in fragments(name, text)]
    assert not found, "\n".join(found)


def test_names_of_tests_say_what_is_tested():
    found = [
        f"{name}::{test}"
        for name, text in sources("tests")
        for test in TEST.findall(text)
        if RIDDLE.match(test)
    ]
    assert not found, "\n".join(found)


def test_tests_wait_for_conditions_and_do_not_sleep():
    sleeps = Counter(
        name
        for name, text in sources("tests")
        if "sleep(" in text
        for node in ast.walk(ast.parse(text))
        if is_sleep(node)
    )
    assert sleeps == SLEEPS
