"""Why a group rebalanced: its last rebalances with their causes and phases. Pure.

A rebalance has three phases: members join (PreparingRebalance, with the initial delay of a group
that was empty), the leader assigns (CompletingRebalance), the members work again (Stable). In the
newer consumer protocol it lasts from the first change of the group's epoch until every member has
what it is to have: the coordinator assigns (Assigning), members give up and take (Reconciling).
"""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from cluster.model.clocks import Moment, MonotonicMs, WallMs

REBALANCES_KEPT: Final = 20
"""Per group."""
CAUSES_KEPT: Final = 20
"""Per rebalance: the first says why it began, the others what kept it busy."""
DETAIL_MAX_CHARACTERS: Final = 500
"""Of a client's reason; its other names are cut in `Member.who`."""
SLOWEST_KEPT: Final = 5
"""Members per rebalance that the others waited for longest."""


class CauseKind(Enum):
    """What makes a group rebalance."""

    MEMBER_JOINED = "member joined"
    MEMBER_LEFT = "member left"
    SESSION_TIMEOUT = "session timeout"
    NEW_MEMBER_TIMEOUT = "the JoinGroup of a new member waited for too long"
    JOIN_TIMEOUT = "did not join again within the rebalance timeout"
    SYNC_TIMEOUT = "did not ask for its assignment within the rebalance timeout"
    SUBSCRIPTION_CHANGED = "member joined again with another subscription or protocol"
    OWNED_PARTITIONS_CHANGED = "member joined again, with other partitions than before"
    LEADER_JOINED_AGAIN = "leader joined again"
    STATIC_MEMBER_REPLACED = "static member came back with a new member id"
    ASSIGNMENT_NOT_STORED = "assignment could not be stored"
    OVER_CAPACITY = "more members than group.max.size"
    REVOCATION_TIMEOUT = "did not give up its partitions within the rebalance timeout"
    TOPICS_CHANGED = "topics that the group subscribes to changed"
    EXPRESSION_CHANGED = "an expression that the group subscribes to stands for other topics"


@dataclass(frozen=True, slots=True)
class WhoseMember:
    """A member as a person knows it."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """One event that began a rebalance, or that came to one which was running."""

    kind: CauseKind
    member: WhoseMember | None = None
    timeout_ms: int | None = None
    """The value of the timeout that ended, for those."""
    detail: str = ""
    """What the client gave as its reason (KIP-800), or the error. Foreign text."""
    after_ms: int = 0
    """Since the rebalance began; 0 for what began it."""


@dataclass(frozen=True, slots=True)
class SlowMember:
    """One that the others waited for."""

    member: WhoseMember
    waited_ms: int
    """From the rebalance's begin until it joined, or until now or the end if it did not."""
    has_joined: bool
    """In the newer consumer protocol: it has given up what it had to; its epoch is the newest."""
    is_expected: bool = False
    """It has been given a member id (KIP-394) and has not come back with it; of such a member
    nothing but the id is known."""


class Waited(NamedTuple):
    """When a member joined, or came into the newest epoch; None if it has not."""

    member: WhoseMember
    joined_ms: int | None
    is_expected: bool = False
    """See `SlowMember`."""


@dataclass(slots=True)
class Rebalance:
    """One rebalance; it changes until it is over. Phases without an end are None."""

    started_ms: MonotonicMs
    started_wall_ms: WallMs
    from_generation: int
    members_before: int
    """When the generation before began."""
    initial_delay_ms: int = 0
    """What `group.initial.rebalance.delay.ms` cost, with its extensions; part of `joining_ms`."""
    causes: list[Cause] = field(default_factory=list)
    causes_left_off: int = 0
    joining_ms: int | None = None
    """Until every member had joined again or the rebalance timeout was over; in the newer consumer
    protocol, until every member had what it is to have."""
    assigning_ms: int | None = None
    """From then until the leader's assignment was stored."""
    generation_id: int | None = None
    """That it led to; None while it runs, or if another rebalance followed before."""
    members_after: int | None = None
    leader: WhoseMember | None = None
    """Who assigns, known from the end of the first phase on."""
    protocol_name: str | None = None
    rebalance_timeout_ms: int = 0
    """Of the group: the largest of its members, for consumers `max.poll.interval.ms`."""
    slowest: list[SlowMember] = field(default_factory=list)
    """Those who joined last, and before them those who did not; at most `SLOWEST_KEPT`."""
    is_over: bool = False
    is_abandoned: bool = False
    """It ended because another broker coordinates the group now, which begins another one."""


class History:
    """The last rebalances of one group. Takes no memory before the first."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[Rebalance] | None = None

    @property
    def current(self) -> Rebalance | None:
        """The one that runs."""
        return self._kept[-1] if self._kept and not self._kept[-1].is_over else None

    def all(self) -> tuple[Rebalance, ...]:
        """Those that are kept, oldest first."""
        return tuple(self._kept or ())

    def begin(
        self, cause: Cause, now: Moment, generation_id: int, members_before: int
    ) -> Rebalance:
        """A rebalance begins; one that runs ends without a generation, since it was disturbed."""
        if self._kept is None:
            self._kept = deque(maxlen=REBALANCES_KEPT)
        if self.current is not None:
            self.current.is_over = True
        rebalance = Rebalance(now.monotonic_ms, now.wall_ms, generation_id, members_before)
        self._kept.append(rebalance)
        self.note(cause, now)
        return rebalance

    def go_on_from(self, earlier: "History") -> None:
        """The group was another before: its rebalances come first. One that ran was disturbed by
        the first of these."""
        if self._kept and earlier.current is not None:
            earlier.current.is_over = True
        everything = (*earlier.all(), *self.all())
        self._kept = deque(everything, maxlen=REBALANCES_KEPT)

    def note(self, cause: Cause, now: Moment) -> None:
        """Something happened to the group; it is of interest while a rebalance runs."""
        rebalance = self.current
        if rebalance is None:
            return
        if len(rebalance.causes) == CAUSES_KEPT:
            rebalance.causes_left_off += 1
        else:
            after_ms = now.monotonic_ms - rebalance.started_ms
            detail = cause.detail[:DETAIL_MAX_CHARACTERS]
            rebalance.causes.append(replace(cause, after_ms=after_ms, detail=detail))

    def joined(self, members: Iterable[Waited], rebalance_timeout_ms: int, now: Moment) -> None:
        """The members' part is over: these joined, or did not."""
        rebalance = self.current
        if rebalance is None:
            return
        rebalance.joining_ms = now.monotonic_ms - rebalance.started_ms
        rebalance.rebalance_timeout_ms = rebalance_timeout_ms
        rebalance.slowest = slowest(rebalance, members, now)

    def assigning(self, leader: WhoseMember) -> None:
        """The leader is asked to assign."""
        if self.current is not None:
            self.current.leader = leader

    def abandon(self) -> None:
        """Another broker coordinates the group from now on."""
        rebalance = self.current
        if rebalance is not None:
            rebalance.is_over = rebalance.is_abandoned = True

    def over(
        self,
        now: Moment,
        generation_id: int,
        members_after: int,
        leader: WhoseMember | None,
        protocol_name: str | None,
    ) -> None:
        """The assignment is stored, or the group has no members left."""
        rebalance = self.current
        if rebalance is None:
            return
        if rebalance.joining_ms is not None:
            since_start = now.monotonic_ms - rebalance.started_ms
            rebalance.assigning_ms = since_start - rebalance.joining_ms
        rebalance.generation_id = generation_id
        rebalance.members_after = members_after
        rebalance.leader = leader
        rebalance.protocol_name = protocol_name
        rebalance.is_over = True

    # ------------------------------------------------------------------ the newer protocol

    def begin_or_note(
        self, cause: Cause, now: Moment, epoch: int, members_before: int
    ) -> Rebalance | None:
        """The group's epoch changes: a rebalance begins, or the one that runs has a cause more."""
        if self.current is not None:
            self.note(cause, now)
            return self.current
        return self.begin(cause, now, epoch, members_before)

    def reconciled(
        self,
        members: Iterable[Waited],
        now: Moment,
        epoch: int,
        assignor: str,
        rebalance_timeout_ms: int,
    ) -> None:
        """Every member has what it is to have, or there are none."""
        if self.current is None:
            return
        everybody = list(members)
        self.joined(everybody, rebalance_timeout_ms, now)
        self.over(now, epoch, len(everybody), None, assignor if everybody else None)


def slowest(rebalance: Rebalance, members: Iterable[Waited], now: Moment) -> list[SlowMember]:
    """Those that the others waited for longest: first who has not joined, then who joined last."""
    started_ms = rebalance.started_ms
    waited = [
        SlowMember(
            each.member,
            max(0, (now.monotonic_ms if each.joined_ms is None else each.joined_ms) - started_ms),
            each.joined_ms is not None,
            each.is_expected,
        )
        for each in members
    ]
    return heapq.nsmallest(
        SLOWEST_KEPT, waited, key=lambda each: (each.has_joined, -each.waited_ms)
    )
