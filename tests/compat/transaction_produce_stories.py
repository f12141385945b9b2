"""Produce in transactions with any acks, and without verification; the answers of Kafka 4.1."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from cluster.model.error_codes import ErrorCode
from tests.compat.transaction_side import TransactionSide, transactional
from tests.compat.transaction_stories import (
    ABORTABLE,
    EPOCH,
    FOREIGN,
    MAPPING,
    NONE,
    ORDER,
    REQUEST,
    STATE,
    Row,
    places_of,
)
from tests.support.topics import unique_name

_ACKS: Final = ErrorCode.invalid_required_acks
_MAX_TIMESTAMP: Final = -3
_VERIFICATION: Final = "transaction.partition.verification.enable"


def acknowledgments(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """Clients demand acks=all of their transactional and idempotent producers; brokers do not."""
    p0, p1, p2, _ = places_of(side)
    name, is_new = unique_name("acks"), version >= 12
    send: Any = partial(side.produce, transactional_id=name, version=version)
    unanswered = partial(side.produce_unanswered, transactional_id=name, version=version)
    end = partial(side.end_all, name, version=5 if is_new else 3)
    who = side.start(name)
    if not is_new:
        yield "acks=1, not added", send(p0, who, acks=1), ABORTABLE if version >= 11 else STATE
        yield "acks=0, not added", unanswered(p1, who, 0), False
        yield "added", side.add(name, who, p0, p1, version=3), [NONE, NONE]
    yield "acks=1 begins", send(p0, who, acks=1), NONE
    yield "acks=1 goes on", send(p0, who, acks=1), NONE
    for acks in (2, -2):
        yield f"acks={acks}", send(p0, who, acks=acks), _ACKS
    yield "acks=1, gap", send(p0, who, 9, acks=1), ORDER
    yield "acks=0 begins", unanswered(p1, who, 0), True
    yield "acks=0 goes on", unanswered(p1, who, 1), True
    yield "acks=0, duplicate", unanswered(p1, who, 1), True
    yield "acks=0, gap", unanswered(p1, who, 9), False
    yield "acks=0, old epoch", unanswered(p1, who.at(-1), 2), False
    yield "acks=all goes on", send(p1, who, 2), NONE
    yield "appended", [side.end_offset(each) for each in (p0, p1)], [2, 3]
    yield "open", [side.end_offset(each, committed=True) for each in (p0, p1)], [0, 0]
    yield "belong to it", side.describe(name)[3], [p0, p1]
    yield "commits", end(who)[0], NONE
    yield "committed", [side.end_offset(each, committed=True) for each in (p0, p1)], [3, 4]
    code, loner = side.init(None)
    for acks in (1, -1):
        answer = side.produce(p2, loner, acks=acks, is_transactional=False, version=version)
        yield f"idempotent, acks={acks}", (code, answer), (NONE, NONE)
    yield "written by the idempotent producer", side.end_offset(p2), 2


def unverified(side: TransactionSide) -> Iterator[Row]:
    """Without verification, batches of clients before transaction version 2 are appended without
    any question. The setting is dynamic."""
    p0, p1, p2, p3 = places_of(side)
    name, none = unique_name("unverified"), unique_name("none")
    who = side.start(name)
    try:
        side.set_for_all(_VERIFICATION, "false")
        for number, version in enumerate((3, 9, 11)):
            send: Any = partial(side.produce, p0, who, transactional_id=name, version=version)
            yield f"not added, version {version}", send(number), NONE
        yield "belongs to nothing", side.describe(name)[1], "Empty"
        yield "open", (side.end_offset(p0), side.end_offset(p0, committed=True)), (3, 0)
        old: Any = partial(side.produce, transactional_id=name, version=11)
        yield "gap", old(p0, who, 9), ORDER
        yield "old epoch", old(p0, who.at(-1), 3), EPOCH
        yield "any first sequence", old(p1, who, 5), NONE
        yield "unknown id", side.produce(p2, who, 0, transactional_id=none, version=11), NONE
        yield "empty id", side.produce(p2, who, 1, transactional_id="", version=11), NONE
        yield "foreign producer", old(p2, FOREIGN, 0), NONE
        yield "newer clients add the partition", side.produce(p3, who, transactional_id=name), NONE
        yield "which is added", side.describe(name)[3], [p3]
        yield (
            "newer clients, unknown id",
            side.produce(p1, FOREIGN, 0, transactional_id=none),
            MAPPING,
        )
        yield "newer clients, empty id", side.produce(p1, FOREIGN, 0, transactional_id=""), REQUEST
        yield "ends", side.end_all(name, who, version=3)[0], NONE
        yield "others stay open", side.end_offset(p0, committed=True), 0
        for place in (p0, p1, p2):
            yield f"marker in {place[1]}", side.write_markers(who, place), [NONE]
        yield "marker of the foreign producer", side.write_markers(FOREIGN, p2), [NONE]
        yield "aborted", side.end_offset(p0, committed=True), 4
        yield "begins after the marker", old(p0, who, 3), NONE
        yield "marker again", side.write_markers(who, p0), [NONE]
    finally:
        side.set_for_all(_VERIFICATION, "true")
    yield "not added, verified again", old(p0, who, 4), ABORTABLE


def several_producers(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """Batches of two producers in one request, which no client sends."""
    p0, p1, _, _ = places_of(side)
    name, other = unique_name("together"), unique_name("other")
    who, another = side.start(name), side.start(other)
    yield "added", side.add(name, who, p0, p1, version=3), [NONE, NONE]
    yield "added for the other", side.add(other, another, p1, version=3), [NONE]
    together: Any = partial(side.produce_together, transactional_id=name, version=version)
    yield "both begin", together((p0, who), (p1, another)), [MAPPING, MAPPING]
    yield "begins", side.produce(p0, who, transactional_id=name, version=version), NONE
    yield "one begins", together((p0, who), (p1, another)), [MAPPING, MAPPING]
    yield "ends", side.end_all(name, who, version=3)[0], NONE
    yield "the other ends", side.end_all(other, another, version=3)[0], NONE


def times(side: TransactionSide) -> Iterator[Row]:
    """ListOffsets by timestamps around the beginning of an open transaction."""
    (place,) = places_of(side, 1)
    name, start_ms = unique_name("times"), time.time_ns() // 1_000_000 - 60_000
    who = side.start(name)
    yield "added", side.add(name, who, place), [NONE]
    _, loner = side.init(None)
    for number, (writer, age_ms) in enumerate(((loner, 0), (who, 1_000), (loner, 2_000))):
        is_loner = writer is loner
        batch = transactional(writer, number // 2, start_ms + age_ms, is_plain=is_loner)
        side.write(place, batch, None if is_loner else name)
    committed: Any = partial(side.offset_at, place, committed=True)
    moments = (start_ms, start_ms + 1, start_ms + 1_001, start_ms + 2_001)
    for level, at, expected in (
        ("uncommitted", partial(side.offset_at, place), [0, 1, 2, -1]),
        ("committed", committed, [0, -1, -1, -1]),
    ):
        yield level, [at(each) for each in moments], [(NONE, each) for each in expected]
    yield "newest", side.offset_at(place, _MAX_TIMESTAMP), (NONE, 2)
    # Ours finds the newest of the records that the client may read.
    newest = side.differs(kafka=-1, ours=0)
    yield "newest, committed", committed(_MAX_TIMESTAMP), (NONE, newest)
    yield "ends", side.end_all(name, who, version=3)[0], NONE
    yield "newest of all", committed(_MAX_TIMESTAMP), (NONE, 3)
