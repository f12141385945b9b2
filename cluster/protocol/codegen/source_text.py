"""Python source under construction: indented lines, and conditions on a version."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class SourceText:
    """Lines, each at the depth of the blocks around it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, *lines: str) -> None:
        """Append lines at the current depth."""
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head`, and one step deeper the lines added inside; without a head at the same depth."""
        if not head:
            yield
            return
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def __str__(self) -> str:
        return "\n".join(self._lines)


def condition(wanted: Collection[int], possible: Collection[int]) -> str:
    """An expression that is true for the wanted ones of the possible versions; "" if all are.

    Both are ranges without gaps.
    """
    first, last = min(wanted), max(wanted)
    if sorted(wanted) != [each for each in sorted(possible) if first <= each <= last]:
        raise ValueError(f"{sorted(wanted)} is not a range of {sorted(possible)}")
    has_older, has_newer = min(possible) < first, max(possible) > last
    if has_older and has_newer:
        return f"version == {first}" if first == last else f"{first} <= version <= {last}"
    if has_older:
        return f"version >= {first}"
    return f"version <= {last}" if has_newer else ""


def snake_case(name: str) -> str:
    """`metadata_response_topic` for `MetadataResponseTopic`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
