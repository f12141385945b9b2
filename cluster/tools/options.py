"""Parsers of option values that several commands share."""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from cluster.model.errors import UserError
from cluster.runtime.private_files import other_readers

Value = TypeVar("Value")

_is_secret: Final = re.compile(
    r".*(password|secret|jaas\.config|keystore\.key|key\.pem)|scram-.*", re.IGNORECASE
).fullmatch
"""Whether a property of a client or of a user has a secret."""


def key_value(text: str) -> tuple[str, str]:
    """`k=v`; the value may contain `=` and may be empty."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text}")
    return key.strip(), value


class WeakerProperties(argparse.Action):
    """Reads pairs from a properties file; pairs given on the command line override them."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> None:
        """Read the file; wrong usage if it cannot be read."""
        from cluster.config.properties_file import read_properties_file  # its library is slow

        try:
            found = read_properties_file(Path(str(values)))
        except UserError as problem:
            raise argparse.ArgumentError(self, str(problem)) from None
        warn_of_readers(Path(str(values)), found.texts)
        setattr(namespace, self.dest, [*found.texts.items(), *getattr(namespace, self.dest, [])])


def warn_of_readers(path: Path, properties: Iterable[str] | None = None) -> None:
    """Say in one line on stderr that others can read a file with a password.

    `properties` are the keys of a properties file, which may have no password.
    """
    if properties is not None and not any(map(_is_secret, properties)):
        return
    try:
        readers = other_readers(path.stat())
    except OSError:  # it was there a moment ago
        return
    if readers is not None:
        print(
            f"warning: {readers} can read the password in {path}: run `chmod 600 {path}`",
            file=sys.stderr,
        )


def is_true(text: str) -> bool:
    """Whether the text is `true` in any case; all other texts are false, as in Java."""
    return text.strip().lower() == "true"


def known_properties(
    given: Iterable[tuple[str, str]], known: Mapping[str, Value]
) -> dict[str, str]:
    """The given properties by name; of a name that is given twice, the last value.

    Raises ValueError for a name that is not in `known`.
    """
    chosen = dict(given)
    for name in chosen:
        if name not in known:
            raise ValueError(f"there is no property {name}; there are: {', '.join(known)}")
    return chosen
