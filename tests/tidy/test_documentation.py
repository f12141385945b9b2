"""The pages of documentation: short enough, all in the index, and no link of theirs is dead."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.dispatch.table import HANDLERS
from cluster.protocol.api import ApiKey
from cluster.tools.arguments import with_signed_values
from cluster.tools.main import command_line

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
_BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:^|[|;&(] )(?:\w+=\S+ )*bin/cluster (.*)")
_ENDS = {"|", "||", "&", "&&", ";", ")", "<", ">", ">>"}
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of each command of `bin/cluster` in the page's blocks."""
    for language, text in _BLOCK.findall(page.read_text().replace("\\\n", " ")):
        for line in text.splitlines():
            if language == "console" and not line.startswith("$ "):
                continue
            found = _COMMAND.search(line.removeprefix("$ "))
            if found is None:
                continue
            split = shlex.shlex(found.group(1), posix=True, punctuation_chars=True)
            split.whitespace_split = True
            words = [*split]
            ends = [at for at, word in enumerate(words) if word in _ENDS]
            # A descriptor, as in `2> file`, is a word of its own.
            end = ends[0] if ends else len(words)
            is_descriptor = ends and words[end] == ">" and words[end - 1] in ("1", "2")
            yield words[: end - 1 if is_descriptor else end]


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


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(commands(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_of_the_blocks_are_understood(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    problems = []
    for words in commands(page):
        try:
            command_line(with_signed_values(words))
        except SystemExit as ended:
            told = capsys.readouterr().err
            if ended.code != 0 and "No such file" not in told:  # made by an earlier command
                problems.append(f"{shlex.join(words)}: {told}")
    assert problems == []
