"""The byte layout of a journal file. Pure; what a payload means is in `transactions`.

file  = magic "MLNJ" | version (uint 1) | entries
entry = payload length (uint) | CRC-32C of the payload (uint) | payload        all big-endian
"""

import struct
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

_HEADER: Final = struct.Struct(">4sI")
_ENTRY: Final = struct.Struct(">II")
FILE_HEADER: Final = _HEADER.pack(b"MLNJ", 1)


class TornEntry(Exception):
    """A journal file has no valid entries from this position on."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.position = position


def encode_entry(payload: bytes) -> bytes:
    """An entry with a payload, its length and its checksum."""
    return _ENTRY.pack(len(payload), crc32c(payload)) + payload


def scan_entries(journal: bytes) -> Iterator[bytes]:
    """The payloads of a file in order. Raises TornEntry at the first invalid entry."""
    if journal[: len(FILE_HEADER)] != FILE_HEADER:
        raise TornEntry(0, "no file header")
    position, end = len(FILE_HEADER), len(journal)
    while position < end:
        start = position + _ENTRY.size
        if start > end:
            raise TornEntry(position, "half an entry header")
        length, checksum = _ENTRY.unpack_from(journal, position)
        if length == 0 or length > end - start:
            raise TornEntry(position, f"an entry of {length} bytes with {end - start} left")
        payload = journal[start : start + length]
        if crc32c(payload) != checksum:
            raise TornEntry(position, "a wrong checksum")
        yield payload
        position = start + length
