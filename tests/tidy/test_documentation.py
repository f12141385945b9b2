"""The pages of documentation: short enough, all in the index, and no link of theirs is dead."""

import re
from pathlib import Path

import pytest

from cluster.brokers.dispatch.table import HANDLERS
from cluster.protocol.api import ApiKey

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_readme_has_at_most_200_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    dead = []
    for path, anchor in _LINK.findall(_CODE.sub("", page.read_text())):
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(path + anchor)
    assert dead == []


def test_index_has_every_page():
    index = (DOCS / "README.md").read_text()
    pages = {page.name for page in DOCS.glob("*.md")} - {"README.md"}
    assert {name for name in pages if f"]({name})" not in index} == set()


def test_protocol_page_names_the_served_apis():
    table = (DOCS / "protocol.md").read_text().split("## APIs\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| [a-z ]+ \| (.*) \|$", table, re.MULTILINE)
    named = [name for cell in cells[1:] for name in cell.split(", ")]
    keys = {ApiKey(each.api.key).name for each in HANDLERS if each.api.is_listed}
    assert sorted(named) == sorted(key.title().replace("_", "") for key in keys)
