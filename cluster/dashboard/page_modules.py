"""The JavaScript modules that the page's first view needs."""

import re
from importlib import resources
from typing import Final

STATIC: Final = resources.files("cluster.dashboard").joinpath("static")
_STATIC_IMPORT: Final = re.compile(r'^import .* from "\./(\w+\.js)";$', re.MULTILINE)


def modules_of(first: str) -> list[str]:
    """`first` and what it imports before it runs, in order; other modules are loaded on demand."""
    found: set[str] = set()
    waiting = {first}
    while waiting:
        name = waiting.pop()
        found.add(name)
        text = STATIC.joinpath(name).read_text(encoding="utf-8")
        waiting |= set(_STATIC_IMPORT.findall(text)) - found
    return sorted(found)
