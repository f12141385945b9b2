"""A group in one sentence, and that with what to do about it. Pure."""

from collections.abc import Iterator
from typing import Final

from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.model.printable import one_line
from cluster.views.explained_lines import wrapped
from cluster.views.groups.advice import advice
from cluster.views.groups.held_back import held_back_advice, held_back_text
from cluster.views.groups.known_rebalances import KnownGroup, duration_ms
from cluster.views.groups.rebalance_words import (
    cause_text,
    count_text,
    member_text,
    time_text,
    waiting_text,
)
from cluster.views.quantities import duration

_ADVICE_SHOWN: Final = 2


def brief_text(known: KnownGroup) -> str:
    """The sentence, what to do, and how to see the rest."""
    return "\n".join(_lines(known)) + "\n"


def group_sentence(known: KnownGroup) -> str:
    """The state of a group, and why it rebalances or does not."""
    return f"Group '{one_line(known.name)}' {_state(known)}."


def head(known: KnownGroup) -> Iterator[str]:
    """The sentence, and what else keeps the group from reading."""
    yield from wrapped("", group_sentence(known))
    if known.held_back:
        yield from wrapped("", held_back_text(known.held_back))


def _lines(known: KnownGroup) -> Iterator[str]:
    yield from head(known)
    yield ""
    yield "What to do"
    found = advice(known)
    for sentence in held_back_advice(known.held_back):
        yield from wrapped("- ", sentence)
    for sentence in found[:_ADVICE_SHOWN]:
        yield from wrapped("- ", sentence)
    for address in known.silent:
        yield from wrapped("- ", f"{one_line(address)}: what it knows is missing here.")
    yield ""
    count = len(known.rebalances)
    parts = [
        "its members",
        *([f"{count_text(count, 'rebalance')} step by step"] if count else []),
        *(["more to do"] if len(found) > _ADVICE_SHOWN else []),
    ]
    yield f"--verbose shows {' and '.join(parts)}."


def _state(known: KnownGroup) -> str:
    running = known.running
    if running is not None:
        return _running(known, running)
    group = known.group
    since = f"for {duration(group.in_state_ms)}" if group.in_state_ms else "since just now"
    count = len(group.members) + group.members_left_off
    if not count:
        return f"has had no members {since}{_last(known)}"
    if group.state == "Stable":
        return f"has been stable {since} with {count_text(count, 'member')}{_last(known)}"
    return f"is in state {group.state} {since} with {count_text(count, 'member')}{_last(known)}"


def _running(known: KnownGroup, running: Rebalance) -> str:
    took = duration(duration_ms(running, known.now_ms) or 0)
    begun = f"has been rebalancing for {took}{_because(known, running)}"
    if running.joining_ms is None:
        waits = waiting_text(known, running).removeprefix(f"for {took} ")
        return f"{begun}; it waits {waits}"
    leader = running.leader
    return f"{begun}; it waits for {member_text(leader)} to assign" if leader else begun


def _last(known: KnownGroup) -> str:
    """Its last rebalance, or that none is known."""
    rebalances = known.rebalances
    if not rebalances:
        return f"; no rebalance is known since {time_text(known.since_wall_ms)} UTC"
    last = rebalances[-1][1]
    ago_ms = max(0, known.now_wall_ms - last.started_wall_ms)
    began = f"began {duration(ago_ms)} ago" if ago_ms else "began just now"
    took_ms = duration_ms(last, known.now_ms)
    took = f"took {duration(took_ms)} and " if took_ms else ""
    return f"; its last rebalance {took}{began}{_because(known, last)}"


def _because(known: KnownGroup, rebalance: Rebalance) -> str:
    """The first cause, and the number of the others."""
    if not rebalance.causes:
        return ""
    more = len(rebalance.causes) - 1 + rebalance.causes_left_off
    others = f" (and {count_text(more, 'more cause')})" if more else ""
    first = rebalance.causes[0]
    outage = known.outage_behind(rebalance, first)
    away = f" while {outage}" if outage is not None else ""
    return f" because {cause_text(known, first)}{away}{others}"
