"""The last rebalances of a group with their causes and phases. Pure.

A rebalance has three phases: members join (PreparingRebalance, with the initial delay of a group
that was empty), the leader assigns (CompletingRebalance), the members have their assignment
(Stable). In the newer consumer protocol a rebalance lasts from the first change of the group's
epoch until all members have their targets: the coordinator assigns (Assigning), then members revoke
and receive partitions (Reconciling).
"""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from cluster.model.clocks import Moment, MonotonicMs, WallMs

REBALANCES_KEPT: Final = 20
"""For one group."""
CAUSES_KEPT: Final = 20
"""For one rebalance: the first is why it began, the others are what happened meanwhile."""
DETAIL_MAX_CHARACTERS: Final = 500
"""The limit of a client's reason; other names are cut in `Member.who`."""
SLOWEST_KEPT: Final = 5
"""The number of members kept that the others waited for longest."""


class CauseKind(Enum):
    """Events that make a group rebalance."""

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
    """The names by which a person recognizes a member."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """An event that started a rebalance or occurred during one."""

    kind: CauseKind
    member: WhoseMember | None = None
    timeout_ms: int | None = None
    """The timeout that expired, if it was one."""
    detail: str = ""
    """The client's reason (KIP-800) or the error. Untrusted text."""
    after_ms: int = 0
    """Time since the rebalance began; 0 for the event that started it."""


@dataclass(frozen=True, slots=True)
class SlowMember:
    """A member that the others waited for."""

    member: WhoseMember
    waited_ms: int
    """From the start of the rebalance until the member joined; if it did not, until now or the end.
    """
    has_joined: bool
    """In the newer consumer protocol: it has revoked what it had to, and reached the newest epoch.
    """
    is_expected: bool = False
    """It was assigned a member id (KIP-394) and has not joined with it; only the id is known."""


class Waited(NamedTuple):
    """When a member joined or reached the newest epoch; None if it has not."""

    member: WhoseMember
    joined_ms: int | None
    is_expected: bool = False
    """It was assigned a member id and has not joined with it."""


@dataclass(slots=True)
class Rebalance:
    """One rebalance, which changes until it is over. Phases that have not ended are None."""

    started_ms: MonotonicMs
    started_wall_ms: WallMs
    from_generation: int
    members_before: int
    """When the previous generation began."""
    initial_delay_ms: int = 0
    """The time taken by `group.initial.rebalance.delay.ms` and its extensions; part of
    `joining_ms`."""
    causes: list[Cause] = field(default_factory=list)
    causes_left_off: int = 0
    joining_ms: int | None = None
    """Until all members had rejoined or the rebalance timeout expired; in the newer consumer
    protocol, until all members had their targets."""
    assigning_ms: int | None = None
    """From the end of the join phase until the leader's assignment was stored."""
    generation_id: int | None = None
    """The resulting generation; None while it is running, or if another rebalance interrupted it.
    """
    members_after: int | None = None
    leader: WhoseMember | None = None
    """The member that assigns; known when the join phase ends."""
    protocol_name: str | None = None
    rebalance_timeout_ms: int = 0
    """The largest of the members' timeouts; for consumers that is `max.poll.interval.ms`."""
    slowest: list[SlowMember] = field(default_factory=list)
    """Members that did not join, then members that joined last; at most `SLOWEST_KEPT`."""
    is_over: bool = False
    is_abandoned: bool = False
    """It ended because another broker became the coordinator, which starts another one."""


class History:
    """The last rebalances of one group. Takes no memory before the first."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[Rebalance] | None = None

    @property
    def current(self) -> Rebalance | None:
        """The running rebalance."""
        return self._kept[-1] if self._kept and not self._kept[-1].is_over else None

    def all(self) -> tuple[Rebalance, ...]:
        """All rebalances that are kept, oldest first."""
        return tuple(self._kept or ())

    def begin(
        self, cause: Cause, now: Moment, generation_id: int, members_before: int
    ) -> Rebalance:
        """Start a rebalance. A running one ends without a generation."""
        if self._kept is None:
            self._kept = deque(maxlen=REBALANCES_KEPT)
        if self.current is not None:
            self.current.is_over = True
        rebalance = Rebalance(now.monotonic_ms, now.wall_ms, generation_id, members_before)
        self._kept.append(rebalance)
        self.note(cause, now)
        return rebalance

    def go_on_from(self, earlier: "History") -> None:
        """Prepend the rebalances of the group before its conversion. The first rebalance here has
        interrupted a running one."""
        if self._kept and earlier.current is not None:
            earlier.current.is_over = True
        everything = (*earlier.all(), *self.all())
        self._kept = deque(everything, maxlen=REBALANCES_KEPT)

    def note(self, cause: Cause, now: Moment) -> None:
        """Add an event to the running rebalance, if there is one."""
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
        """End the join phase: these members joined or did not."""
        rebalance = self.current
        if rebalance is None:
            return
        rebalance.joining_ms = now.monotonic_ms - rebalance.started_ms
        rebalance.rebalance_timeout_ms = rebalance_timeout_ms
        rebalance.slowest = slowest(rebalance, members, now)

    def assigning(self, leader: WhoseMember) -> None:
        """The leader is asked for an assignment."""
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
        """End the rebalance: the assignment is stored, or the group has no members left."""
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
        """Start a rebalance because of a new epoch, or add a cause to the running one."""
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
        """End the rebalance: all members have their targets, or there are no members."""
        if self.current is None:
            return
        everybody = list(members)
        self.joined(everybody, rebalance_timeout_ms, now)
        self.over(now, epoch, len(everybody), None, assignor if everybody else None)


def slowest(rebalance: Rebalance, members: Iterable[Waited], now: Moment) -> list[SlowMember]:
    """The members that the others waited for longest: those that have not joined, then those that
    joined last."""
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
