"""Reads `--topic` and `--replica-assignment` as Kafka's tool does. Pure."""

import re
from collections.abc import Iterable

from cluster.tools.arguments import UsageError


def chosen_topics(pattern: str | None, names: Iterable[str]) -> list[str]:
    """The sorted names that the pattern matches; all for None. Raises UsageError.

    A pattern is a name, else a list separated by commas, else a regular expression for the whole
    name: where a topic `a.b` exists, it is not taken for an expression that also means `axb`.
    """
    known = sorted(names)
    if pattern is None:
        return known
    if pattern in known:
        return [pattern]
    expression = pattern.replace(" ", "").replace(",", "|").strip("\"'")
    try:
        wanted = re.compile(expression)
    except re.error as problem:
        raise UsageError(f"--topic {pattern} is not a regular expression: {problem}") from None
    return [name for name in known if wanted.fullmatch(name)]


def may_collide(name: str) -> bool:
    """Whether Kafka warns of the name: metric names turn `.` into `_`, so two may collide."""
    return "." in name or "_" in name


def replica_assignment(text: str) -> list[list[int]]:
    """`0:1,1:2`: the replicas of each partition, the preferred leader first. Raises UsageError."""
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--replica-assignment lists brokers, like 0:1,1:2 for two partitions, not {text}"
        ) from None
