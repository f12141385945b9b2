"""Why a group rebalanced: its last rebalances with their causes and phases. Pure.

A rebalance has three phases: members join (PreparingRebalance, with the initial delay of a group
that was empty), the leader assigns (CompletingRebalance), the members work again (Stable).
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from cluster.model.clocks import MonotonicMs, WallMs

REBALANCES_KEPT: Final = 20
"""Per group."""
CAUSES_KEPT: Final = 20
"""Per rebalance: the first says why it began, the others what kept it busy."""
SLOWEST_KEPT: Final = 5
"""Members per rebalance that the others waited for longest."""


class CauseKind(Enum):
    """What makes a group rebalance."""

    MEMBER_JOINED = "member joined"
    MEMBER_LEFT = "member left"
    SESSION_TIMEOUT = "session timeout"
    JOIN_TIMEOUT = "did not join again within the rebalance timeout"
    SYNC_TIMEOUT = "did not ask for its assignment within the rebalance timeout"
    SUBSCRIPTION_CHANGED = "member joined again with another subscription or protocol"
    LEADER_JOINED_AGAIN = "leader joined again"
    STATIC_MEMBER_REPLACED = "static member came back with a new member id"
    ASSIGNMENT_NOT_STORED = "assignment could not be stored"
    OVER_CAPACITY = "more members than group.max.size after loading"


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
    after_ms: int
    """Since the rebalance began; 0 for what began it."""
    member: WhoseMember | None = None
    timeout_ms: int | None = None
    """The value of the timeout that ended, for those."""
    detail: str = ""
    """What the client gave as its reason (KIP-800), or the error. Foreign text."""


@dataclass(frozen=True, slots=True)
class SlowMember:
    """One that the others waited for."""

    member: WhoseMember
    waited_ms: int
    """From the rebalance's begin until it joined, or until now or the end if it did not."""
    has_joined: bool


@dataclass(slots=True)
class Rebalance:
    """One rebalance; it changes until it is over. Phases without an end are None."""

    started_ms: MonotonicMs
    started_wall_ms: WallMs
    from_generation: int
    members_before: int
    initial_delay_ms: int = 0
    """What `group.initial.rebalance.delay.ms` cost, with its extensions; part of `joining_ms`."""
    causes: list[Cause] = field(default_factory=list)
    causes_left_off: int = 0
    joining_ms: int | None = None
    """Until every member had joined again or the rebalance timeout was over."""
    assigning_ms: int | None = None
    """From then until the leader's assignment was stored."""
    generation_id: int | None = None
    """That it led to; None while it runs, or if another rebalance followed before."""
    members_after: int | None = None
    leader: WhoseMember | None = None
    protocol_name: str | None = None
    rebalance_timeout_ms: int = 0
    """Of the group: the largest of its members, for consumers `max.poll.interval.ms`."""
    slowest: list[SlowMember] = field(default_factory=list)
    """Those who joined last and those who did not, slowest first; while it runs, those missing."""
    is_over: bool = False
