"""Makes brokers hold about as many bytes, without changing how many replicas they hold. Pure."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from cluster.balancing.draft import Draft
from cluster.model.ids import BrokerId

_RETURNED: Final = 8
"""So many of the smallest partitions of a broker are tried in exchange for a larger one."""
_WORTH: Final = 10
"""An exchange copies less than this many times the bytes by which it brings two brokers nearer."""


class _Exchange(NamedTuple):
    """A partition that moves to a broker with fewer bytes, and perhaps one that comes back."""

    sent: int
    returned: int | None


def even_bytes(draft: Draft, tolerance: float, least_bytes: int) -> int:
    """Exchange partitions of brokers whose bytes differ from the mean; returns how many moved.

    A broker may have `tolerance`, a part of the mean, or `least_bytes` more or less.
    """
    moved = 0
    if not draft.targets:
        return moved
    mean = sum(draft.size_bytes[broker] for broker in draft.targets) / len(draft.targets)
    slack = max(tolerance * mean, least_bytes)
    while True:
        for source, target in _pairs(draft, mean, slack):
            exchange = _best_exchange(draft, source, target)
            if exchange is not None:
                draft.move(exchange.sent, source, target)
                moved += 1
                if exchange.returned is not None:
                    draft.move(exchange.returned, target, source)
                    moved += 1
                break
        else:
            return moved


def _pairs(draft: Draft, mean: float, slack: float) -> list[tuple[BrokerId, BrokerId]]:
    """Brokers with more and with fewer bytes, of which one differs too much from the mean.

    Those that differ most come first.
    """
    size = draft.size_bytes
    pairs = [
        (size[target] - size[source], source, target)
        for source in draft.targets
        for target in draft.targets
        if size[source] > mean > size[target]
        and (size[source] > mean + slack or size[target] < mean - slack)
    ]
    return [(source, target) for _, source, target in sorted(pairs)]


def _best_exchange(draft: Draft, source: BrokerId, target: BrokerId) -> _Exchange | None:
    """The exchange that evens out most for the bytes that it copies; None if none is worth it."""
    difference_bytes = draft.size_bytes[source] - draft.size_bytes[target]

    def worth(exchange: _Exchange) -> float:
        back_bytes = 0 if exchange.returned is None else draft.sizes[exchange.returned]
        sent_bytes = draft.sizes[exchange.sent]
        shift_bytes = sent_bytes - back_bytes
        nearer_bytes = min(shift_bytes, difference_bytes - shift_bytes)
        return nearer_bytes - (sent_bytes + back_bytes) / _WORTH

    best = max(_exchanges(draft, source, target, difference_bytes / 2), key=worth, default=None)
    return best if best is not None and worth(best) > 0 else None


def _exchanges(
    draft: Draft, source: BrokerId, target: BrokerId, wanted_bytes: float
) -> Iterator[_Exchange]:
    """Some that shift about so many bytes."""
    if len(draft.held[source]) == len(draft.held[target]) + 1:  # the counts change places
        sent = draft.chosen(source, target, wanted_bytes)
        if sent is not None:
            yield _Exchange(sent, None)
    for returned in islice(draft.movable(target, source), _RETURNED):
        sent = draft.chosen(source, target, wanted_bytes + draft.sizes[returned])
        if sent is not None:
            yield _Exchange(sent, returned)
