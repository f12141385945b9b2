"""The `.txnindex` files: the aborted transactions of a segment, in Kafka's format.

Each entry has 34 bytes: int16 version 0, int64 producer id, int64 first offset, int64 last offset
(that of its abort marker, inclusive), int64 last stable offset when it ended. Entries are ordered
by last offset.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from cluster.log.files import files_of

SUFFIX: Final = ".txnindex"
ENTRY_BYTES: Final = 34
_ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0


class DamagedTransactionIndex(Exception):
    """The file does not consist of whole entries of version 0 in ascending order."""


class AbortedTransaction(NamedTuple):
    """One aborted transaction of a producer; both offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(VERSION, *transaction) for transaction in transactions)


def decode_transactions(content: bytes) -> list[AbortedTransaction]:
    """Decode the content of a file. Raises DamagedTransactionIndex."""
    if len(content) % ENTRY_BYTES:
        raise DamagedTransactionIndex(f"{len(content)} bytes are not whole entries")
    transactions: list[AbortedTransaction] = []
    for version, transaction in transactions_in(content):
        if version != VERSION:
            raise DamagedTransactionIndex(f"entry {len(transactions)} has version {version}")
        if transactions and transaction.last_offset <= transactions[-1].last_offset:
            raise DamagedTransactionIndex(f"entry {len(transactions)} is out of order")
        transactions.append(transaction)
    return transactions


def transactions_in(content: bytes) -> Iterator[tuple[int, AbortedTransaction]]:
    """Version and fields of each whole entry, without checks."""
    for version, *fields in raw_entries(content):
        yield version, AbortedTransaction(*fields)


def raw_entries(content: bytes, position: int = 0) -> Iterator[tuple[int, int, int, int, int]]:
    """Version and fields of each whole entry from a position on, as plain tuples."""
    whole = (len(content) - position) // ENTRY_BYTES * ENTRY_BYTES
    entries: Iterator[tuple[int, int, int, int, int]]
    entries = _ENTRY.iter_unpack(memoryview(content)[position : position + whole])
    return entries


def first_since(content: bytes, offset: int) -> int:
    """The position of the first entry that ended at or after an offset, in whole entries."""
    low, high = 0, len(content) // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if _ENTRY.unpack_from(content, middle * ENTRY_BYTES)[3] < offset:
            low = middle + 1
        else:
            high = middle
    return low * ENTRY_BYTES


def read_content(path: Path) -> bytes:
    """The content of a file, empty if it is missing.

    Raises DamagedTransactionIndex if the file cannot be read.
    """
    try:
        return files_of(path).read_file(path)
    except FileNotFoundError:
        return b""
    except OSError as problem:
        raise DamagedTransactionIndex(str(problem)) from problem


def read_transactions(path: Path) -> list[AbortedTransaction]:
    """Read the entries of a file; a missing file has none.

    Raises DamagedTransactionIndex, also if the file cannot be read.
    """
    return decode_transactions(read_content(path))
