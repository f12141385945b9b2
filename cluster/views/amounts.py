"""Parses amounts as people write them: rates, percentages, time spans. Pure.

These are types for argparse; the dashboard's page uses them for the same inputs.
"""

import argparse
import re
from datetime import timedelta
from typing import Final

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)(?:/s)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

AMOUNTS: Final = "sizes: 1048576, 1MiB or 1M (1024 x 1024 bytes), 1MB (1000 x 1000 bytes)"


def byte_rate(text: str) -> float:
    """Bytes per second, from a number or a size such as 1MiB. Raises ArgumentTypeError."""
    matched = _AMOUNT.fullmatch(text.strip())
    if matched is None:
        raise argparse.ArgumentTypeError(f"not a size: {text} (such as 1048576, 1MiB or 1MB)")
    number, prefix, is_binary, unit = matched.groups()
    # A bare prefix is binary (1M = 1MiB); with a B it is decimal (1MB).
    base = 1000 if unit and not is_binary else 1024
    amount = float(number) * float(base ** _POWERS[prefix.lower()])
    return positive(float(round(amount)), text)


def percentage(text: str) -> float:
    """Percent of one thread's time, which may exceed 100. Raises ArgumentTypeError."""
    try:
        amount = float(text.strip().removesuffix("%"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a percentage, not {text}") from None
    return positive(amount, text)


def per_second(text: str) -> float:
    """A number per second. Raises ArgumentTypeError."""
    try:
        amount = float(text.strip().removesuffix("/s"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number per second, not {text}") from None
    return positive(amount, text)


def positive(amount: float, text: str) -> float:
    """The amount, if it is above 0 and thus valid as a limit. Raises ArgumentTypeError."""
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return amount


def duration(text: str) -> timedelta:
    """A time span like 90s, 30m, 6h or 2d. Raises argparse.ArgumentTypeError."""
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if not text[:-1].isdecimal() or text[-1:] not in units or not int(text[:-1]):
        raise argparse.ArgumentTypeError(f"must be like 90s, 30m, 6h or 2d, not {text}")
    try:
        return timedelta(**{units[text[-1]]: int(text[:-1])})
    except OverflowError:  # millions of years
        raise argparse.ArgumentTypeError(f"must be less than 999999999d, not {text}") from None
