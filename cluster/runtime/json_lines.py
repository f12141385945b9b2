"""Messages between two processes over a pipe, one line of JSON each. Pure."""

import json
from collections.abc import Mapping
from typing import Any


def line(document: Mapping[str, Any]) -> bytes:
    """Encode one message as a line of JSON; even paths that are not UTF-8 survive."""
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


class LineBuffer:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, received: bytes) -> list[dict[str, Any]]:
        """Add received bytes; returns the messages that are complete now."""
        self._rest += received
        if b"\n" not in received:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(one) for one in lines]
