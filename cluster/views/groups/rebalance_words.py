"""Words for members, rebalances and their causes. Pure."""

from typing import Final

from cluster.coordinator.groups.history.rebalances import Cause, CauseKind, Rebalance, WhoseMember
from cluster.model.printable import one_line
from cluster.views.groups.advice import shown
from cluster.views.groups.known_rebalances import KnownGroup, session_left_ms
from cluster.views.quantities import clock, duration

_ID_CHARACTERS: Final = 8
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


def cause_text(known: KnownGroup, cause: Cause) -> str:
    """What a member did that began, or prolonged, a rebalance."""
    text = _CAUSES.get(cause.kind, cause.kind.value).format(
        timeout=cause.timeout_ms, session=known.session_setting
    )
    whole = text if cause.member is None else f"{member_text(cause.member)} {text}"
    return f'{whole}: "{one_line(cause.detail)}"' if cause.detail else whole


def waiting_text(known: KnownGroup, rebalance: Rebalance) -> str:
    """How long a running rebalance has waited for which members, and how long it may."""
    waited = duration(max(0, known.now_ms - rebalance.started_ms))
    left_ms = known.group.waits_at_most_ms
    limit = "" if left_ms is None else f", for {duration(left_ms)} more at most"
    if rebalance.initial_delay_ms:
        return f"for {waited} for other first members (group.initial.rebalance.delay.ms){limit}"
    missing = [each for each in rebalance.slowest if not each.has_joined]
    names = " and ".join(
        member_or_id(each.member, is_expected=each.is_expected) for each in missing
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


def generation_word(known: KnownGroup) -> str:
    return "epoch" if known.is_newer else "generation"


def member_text(member: WhoseMember) -> str:
    host = shown(member.client_host.lstrip("/"))
    instance = member.group_instance_id
    static = "" if instance is None else f", instance {shown(instance)}"
    return f"client {shown(member.client_id)} at {host} (member {short_id(member)}{static})"


def member_or_id(member: WhoseMember, *, is_expected: bool) -> str:
    if is_expected:
        return f"a client that was told its member id {shown(member.member_id)} and is not back"
    return member_text(member)


def short_id(member: WhoseMember) -> str:
    """The part of a member id that its client id does not tell; logs have the whole."""
    prefix = member.group_instance_id or member.client_id
    return shown(member.member_id.removeprefix(f"{prefix}-")[:_ID_CHARACTERS])


def time_text(wall_ms: int) -> str:
    return clock(wall_ms / 1000, with_day=True)


def count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
