"""Lines of what `transactions explain` prints. Pure."""

from collections.abc import Iterator
from typing import Final

from cluster.views.explained_lines import wrapped

LABEL: Final = 14
SHOWN: Final = 5
"""Transactions of an id, unless the user wants another number of them."""


def labelled(label: str, text: str) -> Iterator[str]:
    """A fact behind its label."""
    yield from wrapped(f"  {label:<{LABEL}}", text)
