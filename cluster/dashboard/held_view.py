"""What keeps records from read_committed consumers, as the page lists it. Pure.

The facts and the words are those of `transactions explain`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.client.topic_requests import Place
from cluster.coordinator.transactions.held_back import HeldPartition
from cluster.dashboard.sources import Json
from cluster.model.clocks import MonotonicMs
from cluster.views.groups.held_back import CONSEQUENCE, HELD_BACK
from cluster.views.holder_words import ending_command, ends
from cluster.views.known_holders import LASTING_MS, Holder

SHOWN_MAX: Final = 10
"""Partitions in one response; if there are more, those held back for longest."""


class LastingHolds:
    """Which partitions have been held back at the same offset for `LASTING_MS`, by readings.

    The times of records cannot tell that: producers choose them.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Place, int], MonotonicMs] = {}
        """When each was first seen: a partition and its last stable offset, which belongs to one
        transaction."""

    def add(
        self, held: Mapping[Place, HeldPartition], now_ms: MonotonicMs
    ) -> dict[Place, HeldPartition]:
        """The lasting ones of a reading, the oldest first."""
        keys = {place: (place, each.last_stable_offset) for place, each in held.items()}
        self._seen = {key: self._seen.get(key, now_ms) for key in keys.values()}
        lasting = [place for place in keys if now_ms - self._seen[keys[place]] >= LASTING_MS]
        lasting.sort(key=lambda place: (self._seen[keys[place]], _began_ms(held[place]), place))
        return {place: held[place] for place in lasting}


def held_view(holders: Sequence[Holder], left_out: int, program: str, now_ms: int) -> Json:
    """`held`: the oldest first, each with what ends it and the command that does; `fact` and
    `consequence` are words for a group that has yet to read one of them.

    `program` is the launcher with its data directory, quoted for a shell; `now_ms` and `since_ms`
    are wall clock times.
    """
    rows = [_row(each, program, now_ms) for each in sorted(holders, key=_order)]
    return {
        "held": rows,
        "left_out": left_out,
        "fact": HELD_BACK,
        "consequence": CONSEQUENCE,
    }


def _row(holder: Holder, program: str, now_ms: int) -> dict[str, Any]:
    partition, first = holder.partition, holder.first
    since_ms = _since_ms(holder)
    return {
        "topic": holder.place.topic,
        "partition": holder.place.partition,
        "verdict": holder.verdict.value,
        "transactional_id": None if holder.known is None else holder.known.transactional_id,
        "producer_id": None if first is None else first.producer.producer_id,
        "first_offset": None if first is None else first.first_offset,
        "since_ms": since_ms,
        "age_ms": None if since_ms is None else max(0, now_ms - since_ms),
        "records": partition.waiting_records,
        "bytes": None if partition.waiting_bytes < 0 else partition.waiting_bytes,
        "ends": ends(holder, now_ms),
        "command": ending_command(holder, program),
    }


def _since_ms(holder: Holder) -> int | None:
    first = holder.first
    return None if first is None or first.first_timestamp_ms < 0 else first.first_timestamp_ms


def _began_ms(partition: HeldPartition) -> float:
    """When its oldest transaction began; the future if that is not known."""
    known = [each.first_timestamp_ms for each in partition.open if each.first_timestamp_ms >= 0]
    return min(known, default=float("inf"))


def _order(holder: Holder) -> tuple[float, Place]:
    since_ms = _since_ms(holder)
    return (float("inf") if since_ms is None else since_ms, holder.place)
