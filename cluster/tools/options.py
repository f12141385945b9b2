"""Values of options that several commands read alike. Pure."""

import argparse
from collections.abc import Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value")


def key_value(text: str) -> tuple[str, str]:
    """`k=v`; the value may contain `=` and may be empty."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text}")
    return key.strip(), value


def at_least_one(text: str) -> int:
    """A count."""
    count = integer(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return count


def not_negative(text: str) -> int:
    """A partition, an offset, a time."""
    number = integer(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def integer(text: str) -> int:
    """Any whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text}") from None


def is_true(text: str) -> bool:
    """As Java reads a boolean: anything but `true` is false."""
    return text.strip().lower() == "true"


def known_properties(
    given: Iterable[tuple[str, str]], known: Mapping[str, Value]
) -> dict[str, str]:
    """The properties by name, the last of a name wins. Raises ValueError for one not in `known`."""
    chosen = dict(given)
    for name in chosen:
        if name not in known:
            raise ValueError(f"there is no property {name}; there are: {', '.join(known)}")
    return chosen
