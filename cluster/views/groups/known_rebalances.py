"""What all brokers together know of a group, and what each rebalance cost which members. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from cluster.client.topic_requests import Place
from cluster.coordinator.groups.history.explanation import (
    ExplainAnswer,
    ExplainedMember,
    GroupExplanation,
)
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind, Rebalance, WhoseMember
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.model.errors import ErrorCode
from cluster.views.groups.outages import Outage

NOTICED_MS: Final = 500
"""A shorter wait is not worth a word."""


_TIMEOUTS: Final = (
    CauseKind.SESSION_TIMEOUT,
    CauseKind.NEW_MEMBER_TIMEOUT,
    CauseKind.JOIN_TIMEOUT,
    CauseKind.SYNC_TIMEOUT,
    CauseKind.REVOCATION_TIMEOUT,
)
"""What a coordinator takes a member to have failed to do."""
_GOES: Final = (CauseKind.SESSION_TIMEOUT, CauseKind.MEMBER_LEFT)


class CoordinatorPeriod(NamedTuple):
    """A time in which one broker coordinated the group."""

    broker: int
    since_wall_ms: int
    until_wall_ms: int | None
    """None: it does so now."""
    rebalances: tuple[Rebalance, ...]


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """One group, as its coordinator and the former ones tell."""

    name: str
    coordinator: int
    address: str
    """Of the coordinator."""
    now_ms: int
    now_wall_ms: int
    group: GroupExplanation
    periods: tuple[CoordinatorPeriod, ...]
    """Oldest first; the last is that of the present coordinator."""
    silent: tuple[str, ...] = ()
    """Brokers that did not answer."""
    outages: tuple[Outage, ...] = ()
    """Of brokers that coordinate or coordinated the group, or may have."""
    held_back: tuple[Place, ...] = ()
    """Partitions that it has yet to read, and that transactions hold back."""

    @property
    def rebalances(self) -> list[tuple[int, Rebalance]]:
        """All that are known, oldest first, with the broker that led each.

        A coordinator that was paused may have led one after its successor had begun.
        """
        found = [(period.broker, each) for period in self.periods for each in period.rebalances]
        return sorted(found, key=lambda each: each[1].started_wall_ms)

    @property
    def assigned(self) -> list[Place]:
        """The partitions of all members that are known."""
        return [
            Place(topic, number)
            for member in self.group.members
            for topic, numbers in (member.assigned or ())
            for number in numbers
        ]

    @property
    def running(self) -> Rebalance | None:
        """The one that has not ended."""
        last = self.periods[-1].rebalances[-1:]
        return last[0] if last and not last[0].is_over else None

    @property
    def forgotten_generation(self) -> int:
        """Up to which generation rebalances are not known any more; 0 where all are known."""
        rebalances = self.rebalances
        return rebalances[0][1].from_generation if rebalances else self.group.generation_id

    @property
    def is_newer(self) -> bool:
        """Whether its members use the newer consumer protocol (KIP-848)."""
        return self.group.group_type == CONSUMER

    @property
    def session_setting(self) -> str:
        """What says how long a member may be silent."""
        return "group.consumer.session.timeout.ms" if self.is_newer else "session.timeout.ms"

    def outage_behind(self, rebalance: Rebalance, cause: Cause) -> Outage | None:
        """The outage of a coordinator because of which it may not have heard what it waited for."""
        if cause.kind not in _TIMEOUTS:
            return None
        at_ms = rebalance.started_wall_ms + cause.after_ms
        waited_ms = cause.timeout_ms or rebalance.rebalance_timeout_ms
        return self.outage_between(at_ms - waited_ms, at_ms)

    def outage_between(self, from_ms: int, until_ms: int) -> Outage | None:
        """The last outage of a coordinator that overlaps that time."""
        found = [each for each in self.outages if each.overlaps(from_ms, until_ms)]
        return found[-1] if found else None

    def member(self, who: WhoseMember) -> ExplainedMember | None:
        """The member as it is now; None if it is gone."""
        return next((each for each in self.group.members if each.who == who), None)

    @property
    def since_wall_ms(self) -> int:
        """The time from which rebalances are known."""
        return self.periods[0].since_wall_ms


def merged(
    name: str,
    answers: Mapping[int, ExplainAnswer],
    addresses: Mapping[int, str],
    silent: Sequence[str] = (),
    outages: Sequence[Outage] = (),
) -> KnownGroup | None:
    """What the answers of brokers, by id, say together; None if none coordinates such a group."""
    (coordinator, answer) = next(
        (each for each in answers.items() if each[1].code is ErrorCode.none), (-1, None)
    )
    if answer is None or answer.group is None:
        return None
    former = {  # several brokers may know the same period
        (each.since_wall_ms, each.broker): CoordinatorPeriod(
            each.broker, each.since_wall_ms, each.until_wall_ms, each.rebalances
        )
        for one in answers.values()
        for each in one.former
    }
    present = CoordinatorPeriod(coordinator, answer.since_wall_ms, None, answer.group.rebalances)
    periods = (*(former[key] for key in sorted(former)), present)
    coordinators = {period.broker for period in periods}
    return KnownGroup(
        name,
        coordinator,
        addresses.get(coordinator, ""),
        answer.now_ms,
        answer.now_wall_ms,
        answer.group,
        periods,
        tuple(silent),
        tuple(
            each for each in outages if each.broker in coordinators or each.broker not in answers
        ),
    )


def session_left_ms(member: ExplainedMember | None) -> int | None:
    """When a member that is silent times out; None for one whose heartbeats come."""
    if member is None or member.quiet_ms is None:
        return None
    left_ms = max(0, member.session_timeout_ms - member.quiet_ms)
    return left_ms if left_ms < member.quiet_ms else None


class CostKind(Enum):
    """What made the others wait while members joined."""

    INITIAL_DELAY = "group.initial.rebalance.delay.ms"
    MISSING = "a member that did not join"
    LATE = "a member that joined last"
    GONE = "a member that left or timed out before it joined again"


class Cost(NamedTuple):
    """A wait that the group would not have had otherwise."""

    kind: CostKind
    ms: int
    member: WhoseMember | None = None
    is_expected: bool = False
    """All that is known of the member is the id that it has been given."""


def costs(rebalance: Rebalance, now_ms: int) -> Iterator[Cost]:
    """What the joining phase of a rebalance cost beyond what its quick members needed.

    `now_ms` counts for one that runs, by the clock of its coordinator.
    """
    joining_ms = rebalance.joining_ms
    if joining_ms is None:
        if rebalance.is_over:
            return
        joining_ms = max(0, now_ms - rebalance.started_ms)
    if rebalance.initial_delay_ms:
        yield Cost(CostKind.INITIAL_DELAY, min(joining_ms, rebalance.initial_delay_ms))
        return
    joined = sorted(
        (each for each in rebalance.slowest if each.has_joined), key=lambda e: e.waited_ms
    )
    missing = [each for each in rebalance.slowest if not each.has_joined]
    for slow in missing:
        others_ms = joined[-1].waited_ms if joined else 0
        cost_ms = joining_ms - others_ms
        yield Cost(CostKind.MISSING, cost_ms, slow.member, slow.is_expected)
    if missing:
        return
    gone = _gone(rebalance, joining_ms)
    if gone is not None and gone.member is not None:
        others_ms = joined[-1].waited_ms if joined else 0
        if gone.after_ms - others_ms >= NOTICED_MS:
            yield Cost(CostKind.GONE, gone.after_ms - others_ms, gone.member)
            return
    if joined:
        others_ms = joined[-2].waited_ms if len(joined) > 1 else 0
        cost_ms = joined[-1].waited_ms - others_ms
        if len(joined) > 1 and cost_ms >= NOTICED_MS:
            yield Cost(CostKind.LATE, cost_ms, joined[-1].member)


def _gone(rebalance: Rebalance, joining_ms: int) -> Cause | None:
    """The last event by which a member was not waited for any more."""
    found = [
        cause
        for cause in rebalance.causes
        if cause.kind in _GOES and 0 < cause.after_ms <= joining_ms
    ]
    return found[-1] if found else None


def duration_ms(rebalance: Rebalance, now_ms: int) -> int | None:
    """The sum of all phases, a running one until now; None if it ended without a generation."""
    if not rebalance.is_over:
        return max(0, now_ms - rebalance.started_ms)
    if rebalance.generation_id is None or rebalance.joining_ms is None:
        return None
    return rebalance.joining_ms + (rebalance.assigning_ms or 0)
