"""Which brokers a start runs: ids from the command line and from the last start. Pure."""

from argparse import ArgumentTypeError
from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from cluster.datadir.state_file import KnownBroker
from cluster.model.errors import UserError

ID_MAX: Final = (1 << 31) - 1
_BROKERS_MAX: Final = 1_000
"""More than fit on a machine; a range of more is a slip."""


def id_list(text: str) -> str:
    """`text`, for argparse, if it lists broker ids. Raises ArgumentTypeError."""
    try:
        parse_broker_ids(text)
    except ValueError as problem:
        raise ArgumentTypeError(str(problem)) from None
    return text


def parse_broker_ids(text: str) -> tuple[int, ...]:
    """The ids of a list such as `1,5,100-102`, in ascending order. Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ValueError(f"must be ids and ranges of ids such as 1,5,100-102, not {text}")
        begin, end = int(first), int(last or first)
        if begin > end or end > ID_MAX:
            raise ValueError(f"{part.strip()} is not a range of ids from 0 to {ID_MAX}")
        if len(found) + end - begin >= _BROKERS_MAX:
            raise ValueError(f"names more than {_BROKERS_MAX} brokers")
        found += range(begin, end + 1)
    twice = [each for each in found if found.count(each) > 1]
    if twice:
        raise ValueError(f"names broker {twice[0]} twice")
    return tuple(sorted(found))


def choose_brokers(
    wanted: int | None, ids: Sequence[int] | None, before: Sequence[KnownBroker], default: int
) -> tuple[KnownBroker, ...]:
    """The brokers to start: those of the last start `before`, and more if `wanted` or `ids` says
    so; `default` is how many a first start has. Raises UserError if one of before is left out.
    """
    if ids is not None and wanted not in (None, len(ids)):
        raise UserError(
            f"--brokers {wanted} and --broker-ids, which names {len(ids)}, contradict each other:"
            " leave --brokers out"
        )
    known = {each.id: each for each in before}
    if ids is None:
        more = (wanted or default if not known else wanted or 0) - len(known)
        first = max(known, default=-1) + 1
        ids = [*known, *range(first, first + max(0, more))]
        if more < 0 and wanted:
            raise _loses(known, f"{wanted} would lose replicas", f"--brokers {len(known)}")
    missing = known.keys() - set(ids)
    if missing:
        lost = ",".join(map(str, sorted(missing)))
        raise _loses(known, f"without {lost} replicas would be lost", "all of them")
    slots = free_slots(before)
    return tuple(known.get(each) or KnownBroker(each, next(slots)) for each in sorted(ids))


def next_id(in_use: Collection[int], largest: int) -> int | None:
    """The id for one more broker: after those in use, or a free one below; None if there is none.

    Only ids up to `largest` count: those above are generated ones.
    """
    after = max((each for each in in_use if each <= largest), default=-1) + 1
    if after <= largest:
        return after
    return next((each for each in range(largest) if each not in in_use), None)


def free_slots(taken: Sequence[KnownBroker]) -> "filter[int]":
    """The slots that no broker has, in ascending order."""
    slots = {each.slot for each in taken}
    return filter(lambda slot: slot not in slots, count())


def listed(ids: Sequence[int]) -> str:
    """`1, 2, 3` or `1 and 2`."""
    return ", ".join(map(str, ids))


def _loses(known: "dict[int, KnownBroker]", what: str, instead: str) -> UserError:
    plural = "s" if len(known) > 1 else ""
    names = listed(sorted(known))
    return UserError(
        f"the data directory holds the data of {len(known)} broker{plural} ({names}), and {what}:"
        f" use {instead}, `remove-broker` while it runs, or another --data-dir"
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
