"""Transactions in what a group has yet to read: why a lag grows that no member causes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cluster.client.admin import Admin
from cluster.client.consumer_group_requests import committed
from cluster.client.explanation_requests import explain_partitions
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place, by_topic
from cluster.coordinator.transactions.held_back import HeldPartition
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.ids import TopicPartition
from cluster.model.printable import one_line
from cluster.views.known_holders import LASTING_MS
from cluster.views.transaction_words import count_text

HELD_BACK: Final = "Held back by a transaction"
CONSEQUENCE: Final = "Consumers with isolation.level=read_committed get no record behind it."
"""What the command and the page say of it."""
_PLACES_SHOWN: Final = 5


def find_held_back(
    admin: Admin, group_id: str, assigned: Sequence[Place], wait: Callable[[float], None]
) -> list[Place]:
    """Partitions of a group that stay held back at the same offset for `LASTING_MS`.

    `assigned` are those of its members; `wait` is `time.sleep`. Raises UserError.
    """
    try:
        offsets = {place: each.offset for place, each in committed(admin, group_id).items()}
        offsets = {**dict.fromkeys(assigned, 0), **offsets}
        first = _held(admin, offsets)
        if not first:
            return []
        wait(LASTING_MS / 1000)
        return lasting(first, _held(admin, first), offsets)
    except Refused as refused:
        raise UserError(reason_of(refused)) from None


def lasting(
    first: Mapping[Place, HeldPartition],
    then: Mapping[Place, HeldPartition],
    offsets: Mapping[Place, int],
) -> list[Place]:
    """Those that two readings find at the same offset, and of which the group has not read all."""
    return [
        place
        for place, each in sorted(first.items())
        if place in then
        and then[place].last_stable_offset == each.last_stable_offset
        and offsets.get(place, 0) < then[place].high_watermark
    ]


def held_back_text(places: Sequence[Place]) -> str:
    """The fact as a sentence, and what it means."""
    names = [one_line(str(TopicPartition(*each))) for each in places[:_PLACES_SHOWN]]
    more = len(places) - len(names)
    others = f" and {more:,} more" if more else ""
    return f"{HELD_BACK}: {', '.join(names)}{others}. {CONSEQUENCE}"


def held_back_advice(places: Sequence[Place]) -> Iterator[str]:
    """How to see the transaction."""
    for topic in [*by_topic(places)][:_PLACES_SHOWN]:
        yield (
            f"`transactions explain --topic {one_line(topic)}` names the transaction, and what ends"
            " it."
        )


def _held(admin: Admin, places: Mapping[Place, object]) -> Mapping[Place, HeldPartition]:
    """Raises Refused, UserError."""
    if not places:
        return {}
    told = explain_partitions(admin, places)
    codes = {
        place: code
        for place, code in told.refused.items()
        if code is not ErrorCode.unknown_topic_or_partition  # deleted since the group has read it
    }
    if codes:
        place, code = min(codes.items())
        raise UserError(
            f"{one_line(str(TopicPartition(*place)))}: {reason_of(Refused(code))}"
            + (f", and {count_text(len(codes) - 1, 'more partition')}" if len(codes) > 1 else "")
        )
    return told.held
