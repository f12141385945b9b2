"""Options and outputs that the sub-commands of `transactions` share."""

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import not_negative

CLIENT_ID: Final = "milena-transactions"
NONE: Final = "None"
"""Kafka's tool shows this for a value that there is not."""


def add_partition(parser: argparse.ArgumentParser) -> None:
    """Add `--topic` and `--partition`, both required."""
    parser.add_argument("--topic", required=True, metavar="T", help="the topic")
    parser.add_argument(
        "--partition", required=True, type=not_negative, metavar="N", help="its partition"
    )


def add_json(parser: argparse.ArgumentParser, what: str = "one object") -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help=f"{what}, for scripts")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table as kafka-transactions does: cells padded, a tab after each."""
    lines = [headings, *(tuple(map(one_line, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("".join(f"{cell}\t" for cell in cells))


def print_json(found: Any) -> None:
    """Print an object or array."""
    print(json.dumps(found, indent=2))
