"""Decides whether a message contains a text. Pure."""

import re
from typing import Final

from cluster.dashboard.messages.batches import DAMAGED, RECORD, Message
from cluster.dashboard.messages.paging import Wants

_ESCAPES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")


def wanted_by(needle: str, match: str) -> Wants:
    """Whether a message contains the text, ignoring case, in the part that `match` names.

    Without a text, every message. A batch that cannot be decoded is always shown.
    """
    if not needle:
        return lambda _: True
    folded = needle.casefold()

    def has(data: bytes | None) -> bool:
        if data is None:
            return False
        text = data.decode("utf-8", "replace")
        return folded in text.casefold() or (
            "\\u" in text and folded in _without_escapes(text).casefold()
        )

    def in_headers(message: Message) -> bool:
        return any(folded in name.casefold() or has(value) for name, value in message.headers)

    def wants(message: Message) -> bool:
        if message.kind != RECORD:
            return message.kind == DAMAGED
        return (
            (match in ("any", "key") and has(message.key))
            or (match in ("any", "value") and has(message.value))
            or (match in ("any", "headers") and in_headers(message))
        )

    return wants


def _without_escapes(text: str) -> str:
    r"""The text with JSON's \u escapes as the characters that they stand for."""
    return _ESCAPES.sub(lambda found: _characters(found[0]), text)


def _characters(escapes: str) -> str:
    units = bytes.fromhex(escapes.replace("\\u", ""))
    return units.decode("utf-16-be", "replace")
