"""Parsers of whole numbers for argparse options; each raises ArgumentTypeError."""

from argparse import ArgumentTypeError
from typing import Final

PORT_MAX: Final = 65_535


def integer(text: str) -> int:
    """Any whole number."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number, not {text}") from None


def at_least_one(text: str) -> int:
    """A whole number of 1 or more."""
    count = integer(text)
    if count < 1:
        raise ArgumentTypeError("must be 1 or more")
    return count


def not_negative(text: str) -> int:
    """A whole number of 0 or more."""
    number = integer(text)
    if number < 0:
        raise ArgumentTypeError("must be 0 or more")
    return number


def port_number(text: str) -> int:
    """A port to listen on; 0 means any free one."""
    number = integer(text)
    if not 0 <= number <= PORT_MAX:
        raise ArgumentTypeError(f"must be from 0 to {PORT_MAX}")
    return number
