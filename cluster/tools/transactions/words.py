"""Lines of what `transactions explain` prints. Pure."""

from collections.abc import Iterator
from typing import Final

from cluster.views.explained_lines import wrapped

LABEL: Final = 14


def labelled(label: str, text: str) -> Iterator[str]:
    """A fact behind its label."""
    yield from wrapped(f"  {label:<{LABEL}}", text)
