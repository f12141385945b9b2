"""What `groups explain` prints, at most 100 columns wide where names are of usual length. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.coordinator.groups.history.explanation import ExplainedMember
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind, Rebalance, WhoseMember
from cluster.coordinator.groups.requests import TopicPartitions
from cluster.model.printable import one_line
from cluster.runtime.text_table import table_text
from cluster.tools.explained_lines import wrapped
from cluster.tools.groups.advice import advice, shown
from cluster.tools.groups.known_rebalances import (
    NOTICED_MS,
    Cost,
    CostKind,
    KnownGroup,
    costs,
    duration_ms,
    session_left_ms,
)
from cluster.views.quantities import clock, duration, percent

MEMBERS_SHOWN: Final = 20
_LABEL: Final = 12
_ID_CHARACTERS: Final = 8
_SHARE_SHOWN: Final = 0.0005
_CAUSES: Final = {
    CauseKind.MEMBER_JOINED: "joined",
    CauseKind.MEMBER_LEFT: "left",
    CauseKind.SESSION_TIMEOUT: "sent no heartbeat within {session}={timeout}",
    CauseKind.NEW_MEMBER_TIMEOUT: "was new, and the others did not come within {timeout} ms",
    CauseKind.JOIN_TIMEOUT: (
        "did not join again within the rebalance timeout (max.poll.interval.ms={timeout}) and was"
        " removed"
    ),
    CauseKind.SYNC_TIMEOUT: (
        "did not ask for its assignment within the rebalance timeout"
        " (max.poll.interval.ms={timeout}) and was removed"
    ),
    CauseKind.SUBSCRIPTION_CHANGED: "joined again with another subscription or assignor",
    CauseKind.OWNED_PARTITIONS_CHANGED: (
        "joined again with other partitions than before (the second step of a cooperative"
        " rebalance, or new partitions)"
    ),
    CauseKind.LEADER_JOINED_AGAIN: (
        "leads and joined again (the partitions of its topics changed, or it was asked to)"
    ),
    CauseKind.REVOCATION_TIMEOUT: (
        "did not give up its partitions within the rebalance timeout"
        " (max.poll.interval.ms={timeout}) and was removed"
    ),
    CauseKind.STATIC_MEMBER_REPLACED: "came back as the same instance, with other protocols",
    CauseKind.ASSIGNMENT_NOT_STORED: "assigned, and that could not be stored",
    CauseKind.OVER_CAPACITY: "was too many: group.max.size is lower",
}
"""What the member did; of kinds that are missing here their own text is shown."""
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
    for sentence in advice(known):
        yield from wrapped("- ", sentence)
    for address in known.silent:
        yield from wrapped("- ", f"{one_line(address)}: what it knows is missing here.")


# -- the group -------------------------------------------------------------------------------------


def _head(known: KnownGroup) -> Iterator[str]:
    group = known.group
    facts = [
        f"{group.state} for {duration(group.in_state_ms)}",
        f"{_generation(known)} {group.generation_id}{_assigned_up_to(known)}",
        _count(len(group.members) + group.members_left_off, "member"),
    ]
    if group.protocol_name:
        facts.append(f"assignor {shown(group.protocol_name)}")
    yield from wrapped(
        "", f"Group '{one_line(known.name)}' ({group.group_type}): {', '.join(facts)}"
    )
    broker = f"broker {known.coordinator}"
    place = f"{broker} ({known.address})" if known.address else broker
    yield f"Coordinator: {place}, since {_time(known.periods[-1].since_wall_ms)} UTC"
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
            _short_id(member.who),
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
    return safe if len(safe) <= 30 else f"{count} partitions of {_count(len(topics), 'topic')}"


# -- rebalances ------------------------------------------------------------------------------------


def _rebalances(known: KnownGroup, last: int) -> Iterator[str]:
    rebalances = known.rebalances
    since = f"since {_time(known.since_wall_ms)}"
    lost = known.forgotten_generation
    if not rebalances:
        earlier = f"; those up to generation {lost} are forgotten" if lost else ""
        yield from wrapped("", f"No rebalances {since}{earlier}.")
        return
    which = "" if len(rebalances) <= last else f", the last {last} shown"
    earlier = f", those up to generation {lost} are forgotten" if lost else ""
    yield f"{_count(len(rebalances), 'rebalance')} {since}{which}{earlier}"
    brokers = {period.broker for period in known.periods if period.rebalances}
    for broker, rebalance in rebalances[-last:]:
        yield ""
        on = f", on broker {broker}" if len(brokers) > 1 else ""
        yield from _rebalance(known, rebalance, on)


def _rebalance(known: KnownGroup, rebalance: Rebalance, on_broker: str) -> Iterator[str]:
    took_ms = duration_ms(rebalance, known.now_ms)
    took = "" if took_ms is None else duration(took_ms)
    generation, before = _generation(known), rebalance.from_generation
    if not rebalance.is_over:
        course = f"after {generation} {before}, running for {took}"
    elif rebalance.generation_id is None:
        course = f"after {generation} {before}, not finished"
    else:
        course = (
            f"{generation} {before} -> {rebalance.generation_id} in {took or '0'},"
            f" {rebalance.members_before} -> {_count(rebalance.members_after or 0, 'member')}"
        )
    yield f"{_time(rebalance.started_wall_ms)}  {course}{on_broker}"
    for number, cause in enumerate(rebalance.causes):
        label = "because" if number == 0 else f"+{duration(cause.after_ms)}"
        outage = known.outage_behind(rebalance, cause)
        then = "" if outage is None else f" ({outage} then, and heard no member)"
        yield from _labelled(label, _cause(known, cause) + then)
    if rebalance.causes_left_off:
        yield from _labelled("", f"... and {rebalance.causes_left_off} events more")
    yield from _joining(known, rebalance)
    yield from _assigning(known, rebalance)
    if rebalance.is_abandoned:
        yield from _labelled("ended", "another broker coordinates the group since then")
    elif rebalance.is_over and rebalance.generation_id is None:
        yield from _labelled("ended", "the next event began another rebalance")


def _cause(known: KnownGroup, cause: Cause) -> str:
    text = _CAUSES.get(cause.kind, cause.kind.value).format(
        timeout=cause.timeout_ms, session=known.session_setting
    )
    whole = text if cause.member is None else f"{_who(cause.member)} {text}"
    return f'{whole}: "{one_line(cause.detail)}"' if cause.detail else whole


def _joining(known: KnownGroup, rebalance: Rebalance) -> Iterator[str]:
    found = [cost for cost in costs(rebalance, known.now_ms) if cost.ms >= NOTICED_MS]
    if rebalance.joining_ms is None:
        if not rebalance.is_over:
            yield from _labelled("waiting", _waiting(known, rebalance))
        return
    parts = [_cost(known, cost) for cost in found]
    phase = duration(rebalance.joining_ms)
    label = "reconciling" if known.is_newer else "joining"
    yield from _labelled(label, f"{phase}, of it {'; '.join(parts)}" if parts else phase)


def _waiting(known: KnownGroup, rebalance: Rebalance) -> str:
    waited = duration(max(0, known.now_ms - rebalance.started_ms))
    left_ms = known.group.waits_at_most_ms
    limit = "" if left_ms is None else f", for {duration(left_ms)} more at most"
    if rebalance.initial_delay_ms:
        return f"for {waited} for other first members (group.initial.rebalance.delay.ms){limit}"
    missing = [each for each in rebalance.slowest if not each.has_joined]
    names = " and ".join(
        _member_or_id(each.member, is_expected=each.is_expected) for each in missing
    )
    others = sum(not member.has_joined for member in known.group.members) - sum(
        not each.is_expected for each in missing
    )
    more = f" and {others} more" if others > 0 else ""
    of_them = f" (rebalance timeout {duration(rebalance.rebalance_timeout_ms)})" if limit else ""
    silent = [session_left_ms(known.member(each.member)) for each in missing]
    ends = [left for left in silent if left is not None]
    unless = f"; no heartbeat either, its session ends in {duration(ends[0])}" if ends else ""
    return f"for {waited} for {names or 'members'}{more}{limit}{of_them}{unless}"


def _cost(known: KnownGroup, cost: Cost) -> str:
    if cost.kind is CostKind.INITIAL_DELAY:
        return f"{duration(cost.ms)} for group.initial.rebalance.delay.ms"
    assert cost.member is not None
    who = _member_or_id(cost.member, is_expected=cost.is_expected)
    waited_for = _WAITED_FOR_NEWER if known.is_newer else _WAITED_FOR
    return f"{duration(cost.ms)} for {who}, {waited_for[cost.kind]}"


def _assigning(known: KnownGroup, rebalance: Rebalance) -> Iterator[str]:
    leader = rebalance.leader
    if leader is None:
        return
    by = f"by {_who(leader)}, the leader"
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


def _generation(known: KnownGroup) -> str:
    return "epoch" if known.is_newer else "generation"


def _who(member: WhoseMember) -> str:
    host = shown(member.client_host.lstrip("/"))
    instance = member.group_instance_id
    static = "" if instance is None else f", instance {shown(instance)}"
    return f"client {shown(member.client_id)} at {host} (member {_short_id(member)}{static})"


def _member_or_id(member: WhoseMember, *, is_expected: bool) -> str:
    if is_expected:
        return f"a client that was told its member id {shown(member.member_id)} and is not back"
    return _who(member)


def _short_id(member: WhoseMember) -> str:
    """The part of a member id that its client id does not tell; logs have the whole."""
    prefix = member.group_instance_id or member.client_id
    return shown(member.member_id.removeprefix(f"{prefix}-")[:_ID_CHARACTERS])


def _time(wall_ms: int) -> str:
    return clock(wall_ms / 1000, with_day=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _labelled(label: str, text: str) -> Iterator[str]:
    yield from wrapped(f"  {label:<{_LABEL}}", text)
