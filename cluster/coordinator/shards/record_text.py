"""The limit of a text in a record of an internal topic. Pure."""

from typing import Final

TEXT_MAX_BYTES: Final = 0x7FFF
"""The length of a text takes two bytes in a record."""


def is_storable(text: str, added_bytes: int = 0) -> bool:
    """Whether a record can hold the text plus `added_bytes`. The flexible versions of requests may
    contain longer texts."""
    limit = TEXT_MAX_BYTES - added_bytes
    return len(text) <= limit // 4 or (len(text) <= limit and len(text.encode()) <= limit)
