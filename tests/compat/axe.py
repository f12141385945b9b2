"""axe-core, which finds what keeps people from using a page."""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.client_programs import NPM_CI, built
from tests.compat.web_browser import WebPage


def axe_core() -> str:
    """The text of axe-core; skips where it cannot be had."""
    folder, problem = built(Path(__file__).parent / "page_checks", fetch=NPM_CI)
    if folder is None:
        pytest.skip(problem)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def violations(page: WebPage, axe: str) -> Any:
    """What axe finds in the page that is shown: the rule, and some of the places."""
    page.ask(axe + ";0")
    return page.ask(
        "axe.run().then((found) => found.violations.map((each) =>"
        " [each.id, each.nodes.map((node) => node.target.join(' ')).slice(0, 5)]))"
    )
