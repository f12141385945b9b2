"""What `groups explain` prints, at most 100 columns wide where names are of usual length. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.coordinator.groups.history.explanation import ExplainedMember
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.requests import TopicPartitions
from cluster.model.printable import one_line
from cluster.runtime.text_table import table_text
from cluster.views.explained_lines import wrapped
from cluster.views.groups.advice import advice, shown
from cluster.views.groups.held_back import held_back_advice
from cluster.views.groups.known_rebalances import (
    NOTICED_MS,
    Cost,
    CostKind,
    KnownGroup,
    costs,
    duration_ms,
)
from cluster.views.groups.rebalance_words import (
    cause_text,
    count_text,
    generation_word,
    member_or_id,
    member_text,
    short_id,
    time_text,
    waiting_text,
)
from cluster.views.groups.sentence import head
from cluster.views.quantities import duration, percent

MEMBERS_SHOWN: Final = 20
_LABEL: Final = 12
_SHARE_SHOWN: Final = 0.0005
_WAITED_FOR: Final = {
    CostKind.MISSING: "which did not join",
    CostKind.LATE: "which joined last",
    CostKind.GONE: "which had not joined when it went",
}
_WAITED_FOR_NEWER: Final = {
    CostKind.MISSING: "which did not give up its partitions",
    CostKind.LATE: "which was last to give up its partitions",
    CostKind.GONE: "which had not given up its partitions when it went",
}


def explanation_text(known: KnownGroup, last: int) -> str:
    """The whole answer; of the rebalances the `last` ones."""
    return "\n".join(_lines(known, last)) + "\n"


def _lines(known: KnownGroup, last: int) -> Iterator[str]:
    yield from _head(known)
    yield ""
    yield from _members(known)
    yield ""
    yield from _rebalances(known, last)
    yield ""
    yield "What to do"
    for sentence in (*held_back_advice(known.held_back), *advice(known)):
        yield from wrapped("- ", sentence)
    for address in known.silent:
        yield from wrapped("- ", f"{one_line(address)}: what it knows is missing here.")


# -- the group -------------------------------------------------------------------------------------


def _head(known: KnownGroup) -> Iterator[str]:
    yield from head(known)
    yield ""
    group = known.group
    facts = [
        f"{group.state} for {duration(group.in_state_ms)}",
        f"{generation_word(known)} {group.generation_id}{_assigned_up_to(known)}",
        count_text(len(group.members) + group.members_left_off, "member"),
    ]
    if group.protocol_name:
        facts.append(f"assignor {shown(group.protocol_name)}")
    yield from wrapped(
        "", f"Group '{one_line(known.name)}' ({group.group_type}): {', '.join(facts)}"
    )
    broker = f"broker {known.coordinator}"
    place = f"{broker} ({known.address})" if known.address else broker
    yield f"Coordinator: {place}, since {time_text(known.periods[-1].since_wall_ms)} UTC"
    total_ms = sum(group.state_times_ms.values())
    if total_ms:
        times = ", ".join(
            f"{state} {percent(100 * spent / total_ms)} ({duration(spent)})"
            for state, spent in sorted(group.state_times_ms.items(), key=lambda each: -each[1])
            if spent / total_ms >= _SHARE_SHOWN
        )
        yield from wrapped("", f"Time in each state there: {times}", indent=13)


def _members(known: KnownGroup) -> Iterator[str]:
    group = known.group
    if not group.members:
        yield "It has no members."
        return
    rows = [
        (
            shown(member.who.client_id),
            short_id(member.who),
            *([shown(member.who.group_instance_id or "")] if _has_instances(known) else []),
            shown(member.who.client_host.lstrip("/")),
            *([] if member.epoch is None else [str(member.epoch)]),
            _condition(known, member),
            duration(member.session_timeout_ms),
            duration(member.rebalance_timeout_ms),
            _holds(member),
        )
        for member in group.members[:MEMBERS_SHOWN]
    ]
    instances = ["INSTANCE"] if _has_instances(known) else []
    epochs = ["EPOCH"] if known.is_newer else []
    headings = (
        "CLIENT",
        "MEMBER",
        *instances,
        "HOST",
        *epochs,
        "NOW",
        "SESSION",
        "MAX POLL",
        "HOLDS",
    )
    yield table_text(headings, rows)
    more = len(group.members) + group.members_left_off - len(rows)
    if more:
        yield f"... and {more} more"


def _has_instances(known: KnownGroup) -> bool:
    return any(member.who.group_instance_id for member in known.group.members)


def _condition(known: KnownGroup, member: ExplainedMember) -> str:
    heard = "" if member.quiet_ms is None else f"heard {duration(member.quiet_ms)} ago"
    if member.revoking:
        return f"gives up {_named(member.revoking)}"
    if known.running is None:
        return heard or "-"
    if known.running.joining_ms is None:
        if member.has_joined and known.is_newer:
            return "has all" if member.has_synced else "waits for partitions"
        return "has joined" if member.has_joined else f"awaited, {heard}" if heard else "awaited"
    return "waits for assignment" if member.has_synced else "awaited"


def _holds(member: ExplainedMember) -> str:
    """`orders(0,1), audit(2)`: what it was assigned last."""
    if member.assigned is None:
        return "?"
    return _named(member.assigned)


def _named(topics: Sequence[TopicPartitions]) -> str:
    held = ", ".join(
        f"{topic}({','.join(map(str, sorted(partitions)))})" for topic, partitions in sorted(topics)
    )
    count = sum(len(partitions) for _, partitions in topics)
    safe = one_line(held)
    return safe if len(safe) <= 30 else f"{count} partitions of {count_text(len(topics), 'topic')}"


# -- rebalances ------------------------------------------------------------------------------------


def _rebalances(known: KnownGroup, last: int) -> Iterator[str]:
    rebalances = known.rebalances
    since = f"since {time_text(known.since_wall_ms)}"
    lost = known.forgotten_generation
    if not rebalances:
        earlier = f"; those up to generation {lost} are forgotten" if lost else ""
        yield from wrapped("", f"No rebalances {since}{earlier}.")
        return
    which = "" if len(rebalances) <= last else f", the last {last} shown"
    earlier = f", those up to generation {lost} are forgotten" if lost else ""
    yield f"{count_text(len(rebalances), 'rebalance')} {since}{which}{earlier}"
    brokers = {period.broker for period in known.periods if period.rebalances}
    for broker, rebalance in rebalances[-last:]:
        yield ""
        on = f", on broker {broker}" if len(brokers) > 1 else ""
        yield from _rebalance(known, rebalance, on)


def _rebalance(known: KnownGroup, rebalance: Rebalance, on_broker: str) -> Iterator[str]:
    took_ms = duration_ms(rebalance, known.now_ms)
    took = "" if took_ms is None else duration(took_ms)
    generation, before = generation_word(known), rebalance.from_generation
    if not rebalance.is_over:
        course = f"after {generation} {before}, running for {took}"
    elif rebalance.generation_id is None:
        course = f"after {generation} {before}, not finished"
    else:
        course = (
            f"{generation} {before} -> {rebalance.generation_id} in {took or '0'},"
            f" {rebalance.members_before} -> {count_text(rebalance.members_after or 0, 'member')}"
        )
    yield f"{time_text(rebalance.started_wall_ms)}  {course}{on_broker}"
    for number, cause in enumerate(rebalance.causes):
        label = "because" if number == 0 else f"+{duration(cause.after_ms)}"
        outage = known.outage_behind(rebalance, cause)
        then = "" if outage is None else f" ({outage} then, and heard no member)"
        yield from _labelled(label, cause_text(known, cause) + then)
    if rebalance.causes_left_off:
        yield from _labelled("", f"... and {rebalance.causes_left_off} events more")
    yield from _joining(known, rebalance)
    yield from _assigning(known, rebalance)
    if rebalance.is_abandoned:
        yield from _labelled("ended", "another broker coordinates the group since then")
    elif rebalance.is_over and rebalance.generation_id is None:
        yield from _labelled("ended", "the next event began another rebalance")


def _joining(known: KnownGroup, rebalance: Rebalance) -> Iterator[str]:
    found = [cost for cost in costs(rebalance, known.now_ms) if cost.ms >= NOTICED_MS]
    if rebalance.joining_ms is None:
        if not rebalance.is_over:
            yield from _labelled("waiting", waiting_text(known, rebalance))
        return
    parts = [_cost(known, cost) for cost in found]
    phase = duration(rebalance.joining_ms)
    label = "reconciling" if known.is_newer else "joining"
    yield from _labelled(label, f"{phase}, of it {'; '.join(parts)}" if parts else phase)


def _cost(known: KnownGroup, cost: Cost) -> str:
    if cost.kind is CostKind.INITIAL_DELAY:
        return f"{duration(cost.ms)} for group.initial.rebalance.delay.ms"
    assert cost.member is not None
    who = member_or_id(cost.member, is_expected=cost.is_expected)
    waited_for = _WAITED_FOR_NEWER if known.is_newer else _WAITED_FOR
    return f"{duration(cost.ms)} for {who}, {waited_for[cost.kind]}"


def _assigning(known: KnownGroup, rebalance: Rebalance) -> Iterator[str]:
    leader = rebalance.leader
    if leader is None:
        return
    by = f"by {member_text(leader)}, the leader"
    if rebalance.assigning_ms is not None:
        yield from _labelled("assigning", f"{duration(rebalance.assigning_ms)} {by}")
    elif not rebalance.is_over and rebalance.joining_ms is not None:
        since_ms = max(0, known.now_ms - rebalance.started_ms - rebalance.joining_ms)
        left_ms = known.group.waits_at_most_ms
        limit = "" if left_ms is None else f", for {duration(left_ms)} more at most"
        yield from _labelled("waiting", f"for {duration(since_ms)} for the assignment {by}{limit}")


# -- words -----------------------------------------------------------------------------------------


def _assigned_up_to(known: KnownGroup) -> str:
    """Where the target assignment is older than the group."""
    epoch = known.group.assignment_epoch
    is_current = epoch is None or epoch == known.group.generation_id
    return "" if is_current else f" (assigned up to epoch {epoch})"


def _labelled(label: str, text: str) -> Iterator[str]:
    yield from wrapped(f"  {label:<{_LABEL}}", text)
