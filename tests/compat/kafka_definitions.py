"""Writes `cluster/config/kafka_definitions.tsv`: what Kafka's releases define as broker settings.

For maintainers, after a release of Kafka: add it to RELEASES, then
python -m tests.compat.kafka_definitions > cluster/config/kafka_definitions.tsv
(fetches 120 MB for each release that is not in the cache; needs a JDK and Maven).
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tests.compat.kafka_jvm import class_path, fetch
from tests.compat.kafka_process import run_program

RELEASES: Final = (
    *("2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2"),
    *("3.8.1", "3.9.1", "4.0.0", "4.1.0"),
)
"""The last patch of each line, oldest first."""
HEAD: Final = """\
# Settings of brokers in Kafka {first} to {last}, written by tests/compat/kafka_definitions.py:
# name, type, default in quotation marks (empty for null), update, releases, internal, validator
"""
_LONGEST_VALIDATOR: Final = 100


class Definition(NamedTuple):
    """One setting as one release defines it; the fields are those of `BrokerDefinitions.java`."""

    name: str
    type: str
    default: str
    importance: str
    update: str
    internal: str
    validator: str


def defined_in(release: str) -> dict[str, Definition]:
    """The settings of a release by name. Skips the running test where it cannot be asked."""
    printed = run_program("BrokerDefinitions", version=release)
    found = [Definition(*line.split("\t")) for line in printed.splitlines()]
    return {each.name: each for each in found}


def table(by_release: Mapping[str, Mapping[str, Definition]]) -> str:
    """The file: of each setting what the newest release says that has it."""
    releases = list(by_release)
    head = HEAD.format(first=_line_of(releases[0]), last=_line_of(releases[-1]))
    return head + "".join(f"{line}\n" for line in _lines(by_release))


def _lines(by_release: Mapping[str, Mapping[str, Definition]]) -> Iterator[str]:
    for name in sorted({name for defined in by_release.values() for name in defined}):
        having = [release for release, defined in by_release.items() if name in defined]
        newest = by_release[having[-1]][name]
        validator = newest.validator if len(newest.validator) <= _LONGEST_VALIDATOR else ""
        yield "\t".join(
            (
                name,
                newest.type,
                newest.default,
                newest.update,
                f"{_line_of(having[0])}-{_line_of(having[-1])}",
                newest.internal,
                validator,
            )
        ).rstrip("\t")


def _line_of(release: str) -> str:
    """`4.1` of `4.1.0`."""
    return release.rpartition(".")[0]


def main() -> None:
    """Print the table."""
    for release in RELEASES:
        problem = "" if class_path(release) else fetch(version=release)
        if problem:
            sys.exit(f"Kafka {release}: {problem}")
    sys.stdout.write(table({release: defined_in(release) for release in RELEASES}))


if __name__ == "__main__":
    main()
