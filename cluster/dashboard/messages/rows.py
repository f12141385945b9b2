"""Makes what the page shows of messages. Pure.

Offsets, timestamps and producer ids are texts: a browser's numbers are exact up to 2^53 only.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.dashboard.messages.asking import Cursor, Question, cursor_text
from cluster.dashboard.messages.batches import Message
from cluster.dashboard.messages.paging import Page, Range
from cluster.dashboard.messages.shown import (
    LISTED_MAX_CHARACTERS,
    LISTED_MAX_HEADERS,
    listed,
    whole,
)
from cluster.model.errors import Refused
from cluster.records.batch import NO_TIMESTAMP, BatchHeader

Json = dict[str, Any]
_NAMED_MAX: Final = 5
"""Partitions that a sentence names."""


def page_json(
    question: Question,
    ranges: Mapping[int, Range],
    edge: Cursor,
    page: Page,
    failed: Mapping[int, str],
    notes: Sequence[str],
    looked_through: int,
) -> Json:
    """A page; `edge` is where it begins in the direction in which it was read."""
    given = question.before or question.after or {}
    kept = {number: offset for number, offset in given.items() if number not in ranges}
    lower, upper = (page.resume, edge) if question.is_backward else (edge, page.resume)
    is_newest_first = question.start.kind == "newest"
    messages = [*page.messages]
    if is_newest_first != question.is_backward:
        messages.reverse()
    has_older = any(lower[number] > ranges[number].start for number in lower)
    has_newer = any(upper[number] < ranges[number].end for number in upper)
    return {
        "messages": [row(message) for message in messages],
        "is_newest_first": is_newest_first,
        "older": cursor_text({**kept, **lower}) if has_older else None,
        "newer": cursor_text({**kept, **upper}),
        "has_newer": has_newer,
        "looked_through": looked_through,
        "stopped": None if page.stopped is None else stopped_text(page, edge),
        "held": held_text(ranges),
        "notes": [*notes, *failures(failed)],
    }


def row(message: Message) -> Json:
    """One message of a list."""
    return _row(message, listed(message.key), listed(message.value))


def whole_row(message: Message, *, as_hex: bool) -> Json:
    """One message as far as a page can show it."""
    key, value = (whole(data, as_hex=as_hex) for data in (message.key, message.value))
    return _row(message, key, value)


def _row(message: Message, key: Json, value: Json) -> Json:
    header = message.batch
    return {
        "partition": message.partition,
        "offset": str(message.offset),
        "timestamp": None if message.timestamp_ms == NO_TIMESTAMP else str(message.timestamp_ms),
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "kind": message.kind,
        "problem": message.problem,
        "key": key,
        "value": value,
        "headers": [
            [name[:LISTED_MAX_CHARACTERS], listed(data)]
            for name, data in message.headers[:LISTED_MAX_HEADERS]
        ],
        "header_count": len(message.headers),
        "size": message.size_bytes,
        "batch": _batch(header),
        "producer": _producer(header, message.offset),
    }


def _batch(header: BatchHeader) -> Json:
    return {
        "first": str(header.base_offset),
        "last": str(header.last_offset),
        "records": header.record_count,
        "size": header.size_bytes,
        "compression": compression_name(header),
        "leader_epoch": header.partition_leader_epoch,
    }


def compression_name(header: BatchHeader) -> str:
    """The codec of the batch as `compression.type` names it."""
    try:
        return header.compression.name.lower()
    except Refused as unknown:
        return unknown.reason


def _producer(header: BatchHeader, offset: int) -> Json | None:
    """The idempotent producer of a record; None for other producers."""
    if header.producer_id < 0:
        return None
    sequence = header.base_sequence
    return {
        "id": str(header.producer_id),
        "epoch": header.producer_epoch,
        "sequence": None if sequence < 0 else sequence + offset - header.base_offset,
        "is_transactional": header.is_transactional,
    }


def held_text(ranges: Mapping[int, Range]) -> str:
    """Which offsets there are."""
    if len(ranges) == 1:
        ((number, known),) = ranges.items()
        if known.start == known.end:
            return f"Partition {number} is empty; its next record gets offset {known.end}."
        return f"Partition {number} holds offsets {known.start} to {known.end - 1}."
    total = sum(known.end - known.start for known in ranges.values())
    holding = f"{total:,} offset{'' if total == 1 else 's'}" if total else "no record"
    return f"{len(ranges):,} partitions hold {holding}."


def open_transactions(ranges: Mapping[int, Range], ends: Mapping[int, int]) -> list[str]:
    """A line if open transactions hold records back from readers of committed ones."""
    held = {
        number: f"{known.end} to {ends[number] - 1}"
        for number, known in ranges.items()
        if ends.get(number, -1) > known.end
    }
    places = [f"{offsets} of partition {number}" for number, offsets in held.items()]
    if not places:
        return []
    return [f"Not read, since a transaction is open: offsets {_some(places)}."]


def stopped_text(page: Page, edge: Cursor) -> str:
    """Where a request has ended that took too much."""
    if page.resume == edge:
        return f"Stopped after {page.stopped} within one batch: read on from an offset before it."
    places = [f"offset {offset} of partition {number}" for number, offset in page.resume.items()]
    return f"Stopped after {page.stopped} at {_some(places)}."


def failures(failed: Mapping[int, str]) -> list[str]:
    """A line for each reason why partitions were not read."""
    by_reason: dict[str, list[int]] = {}
    for number, why in sorted(failed.items()):
        by_reason.setdefault(why, []).append(number)
    lines = []
    for why, numbers in by_reason.items():
        noun = "partition" if len(numbers) == 1 else "partitions"
        lines.append(f"Cannot read {noun} {_some([*map(str, numbers)])}: {why}.")
    return lines


def _some(texts: Sequence[str]) -> str:
    """The first few of them."""
    more = len(texts) - _NAMED_MAX
    return ", ".join(texts[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
