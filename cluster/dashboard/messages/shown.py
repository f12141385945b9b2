"""Decides how a key, a value or a header is shown: as JSON, text or bytes. Pure."""

import re
from typing import Any, Final

from cluster.dashboard.messages.json_tree import LINES_MAX, json_tree

Json = dict[str, Any]

LISTED_MAX_CHARACTERS: Final = 2_000
LISTED_MAX_LINES: Final = 200
LISTED_MAX_HEADERS: Final = 50
WHOLE_MAX_CHARACTERS: Final = 2 * 1024 * 1024
WHOLE_MAX_HEX_BYTES: Final = 64 * 1024
_LISTED_MAX_HEX_BYTES: Final = 256
_HEX_LINE_BYTES: Final = 16
_BINARY: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def listed(data: bytes | None) -> Json:
    """For a list of messages: cut to what fits there."""
    return _shown(data, LISTED_MAX_CHARACTERS, _LISTED_MAX_HEX_BYTES, LISTED_MAX_LINES)


def whole(data: bytes | None, *, as_hex: bool = False) -> Json:
    """For one message: as much as a page can show."""
    if as_hex and data:
        return _binary(data, WHOLE_MAX_HEX_BYTES)
    return _shown(data, WHOLE_MAX_CHARACTERS, WHOLE_MAX_HEX_BYTES, LINES_MAX)


def _shown(data: bytes | None, characters: int, hex_bytes: int, lines: int) -> Json:
    if data is None:
        return {"kind": "null", "size": 0, "is_cut": False}
    if not data:
        return {"kind": "empty", "size": 0, "is_cut": False}
    text = as_text(data)
    if text is None:
        return _binary(data, hex_bytes)
    is_cut = len(text) > characters
    found = {"kind": "text", "size": len(data), "text": text[:characters], "is_cut": is_cut}
    if is_cut:
        return found
    tree = json_tree(text, lines)
    if tree is None:
        return found
    return {**found, "kind": "json", "lines": tree.lines, "is_cut": tree.is_cut}


def as_text(data: bytes) -> str | None:
    """The UTF-8 text; None for bytes that are none, or that contain control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _BINARY.search(text) else text


def _binary(data: bytes, most: int) -> Json:
    return {
        "kind": "binary",
        "size": len(data),
        "text": "\n".join(hex_lines(data[:most])),
        "is_cut": len(data) > most,
    }


def hex_lines(data: bytes) -> list[str]:
    """Offset, bytes and printable ASCII, 16 bytes a line, as `hexdump -C` writes them."""
    found = []
    for at in range(0, len(data), _HEX_LINE_BYTES):
        part = data[at : at + _HEX_LINE_BYTES]
        halves = f"{part[:8].hex(' ')}  {part[8:].hex(' ')}"
        printable = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        found.append(f"{at:08x}  {halves:<48}  |{printable}|")
    return found
