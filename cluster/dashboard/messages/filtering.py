"""Decides whether a message contains a text. Pure."""

from cluster.dashboard.messages.batches import DAMAGED, RECORD, Message
from cluster.dashboard.messages.paging import Wants


def wanted_by(needle: str, match: str) -> Wants:
    """Whether a message contains the text, ignoring case, in the part that `match` names.

    Without a text, every message. A batch that cannot be decoded is always shown.
    """
    if not needle:
        return lambda _: True
    folded = needle.casefold()

    def has(data: bytes | None) -> bool:
        return data is not None and folded in data.decode("utf-8", "replace").casefold()

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
