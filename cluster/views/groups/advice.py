"""What to do about a group's rebalances: one sentence for each typical cause that is seen. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from cluster.coordinator.groups.history.explanation import ExplainedMember
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind, Rebalance, WhoseMember
from cluster.model.printable import one_line
from cluster.runtime.installation import launcher
from cluster.views.groups.known_rebalances import (
    NOTICED_MS,
    Cost,
    CostKind,
    KnownGroup,
    costs,
    session_left_ms,
)
from cluster.views.groups.outages import Outage
from cluster.views.quantities import duration

_SHOWN_CHARACTERS: Final = 40
_SLOW_MS: Final = 1_000
_COMES_BACK_MS: Final = 5 * 60_000
_OFTEN: Final = 5
_OFTEN_MS: Final = 10 * 60_000
_POLL_TIMEOUT: Final = "poll timeout"
"""In the reason that Kafka's Java client gives when it leaves because nobody polled."""
_MOVED: Final = "NOT_COORDINATOR"
"""Why an assignment was not stored by a broker that another one has followed."""
_STOPS_ALL: Final = frozenset({"range", "roundrobin", "sticky"})
"""Assignors by which every member gives up its partitions in each rebalance (eager)."""


class Client(NamedTuple):
    """Whose members are meant: their ids change, these do not."""

    client_id: str
    host: str
    instance_id: str | None

    @classmethod
    def of(cls, member: WhoseMember) -> "Client":
        """Whose member it is."""
        return cls(member.client_id, member.client_host, member.group_instance_id)

    def __str__(self) -> str:
        name = f"client {shown(self.client_id)} at {shown(self.host.lstrip('/'))}"
        return name if self.instance_id is None else f"{name} (instance {shown(self.instance_id)})"


def shown(text: str) -> str:
    """A foreign name on one line, cut where it would fill it."""
    safe = one_line(text)
    return safe if len(safe) <= _SHOWN_CHARACTERS else f"{safe[: _SHOWN_CHARACTERS - 3]}..."


def advice(known: KnownGroup) -> list[str]:
    """Sentences, the most telling first; never none."""
    rebalances = [each for _, each in known.rebalances]
    if not rebalances:
        if known.forgotten_generation:
            return ["Nothing yet: a coordinator that is killed forgets what it knew."]
        return ["The group has never rebalanced: there is nothing to explain."]
    said = [sentence for rule in _RULES for sentence in rule(known, rebalances)]
    return said or ["Nothing to fix: members came or went, and nobody had to wait for long."]


# -- rules -----------------------------------------------------------------------------------------


def _coordinator_was_away(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Timeouts that are no fault of a client."""
    times: Counter[int] = Counter()
    paused: Counter[int] = Counter()
    for rebalance in rebalances:
        for cause in rebalance.causes:
            outage = known.outage_behind(rebalance, cause)
            if outage is not None:
                times[outage.broker] += 1
                paused[outage.broker] += outage.was_paused
    for broker, count in times.most_common():
        what = "paused" if paused[broker] else "down"
        yield (
            f"Broker {broker}, a coordinator of the group, was {what} when members were taken to"
            f" be gone ({_times(count)}): it could not hear them. There is nothing to change at the"
            " clients; `status --json` has the events of the brokers."
        )


def _no_poll(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Members that did not poll in time: they did not join again, or left and said so."""
    times: Counter[Client] = Counter()
    lost_ms: Counter[Client] = Counter()
    limits_ms: dict[Client, int] = {}
    for rebalance in rebalances:
        for cause in rebalance.causes:
            if cause.member is None or not _is_no_poll(cause):
                continue
            if known.outage_behind(rebalance, cause) is not None:
                continue
            client = Client.of(cause.member)
            times[client] += 1
            limits_ms[client] = cause.timeout_ms or rebalance.rebalance_timeout_ms
        for cost in costs(rebalance, known.now_ms):
            if cost.kind is CostKind.MISSING and cost.member is not None and rebalance.is_over:
                lost_ms[Client.of(cost.member)] += cost.ms
    for client, count in times.most_common(3):
        limit = f"max.poll.interval.ms={limits_ms[client]}" if limits_ms[client] else "time"
        waited = (
            f", and the group waited {duration(lost_ms[client])} for it" if lost_ms[client] else ""
        )
        yield (
            f"{_capital(str(client))} did not poll within {limit} ({_times(count)}){waited}:"
            " raise max.poll.interval.ms, or do less between two polls (max.poll.records,"
            " work in another thread)."
        )


def _is_no_poll(cause: Cause) -> bool:
    if cause.kind in (CauseKind.JOIN_TIMEOUT, CauseKind.REVOCATION_TIMEOUT):
        return True
    return cause.kind is CauseKind.MEMBER_LEFT and _POLL_TIMEOUT in cause.detail


def _waits_now(known: KnownGroup, _rebalances: list[Rebalance]) -> Iterator[str]:
    """Who is waited for at this moment."""
    running, left_ms = known.running, known.group.waits_at_most_ms
    if running is None or running.joining_ms is not None or left_ms is None:
        return
    missing = [cost for cost in costs(running, known.now_ms) if cost.kind is CostKind.MISSING]
    if missing and missing[0].member is not None and not missing[0].is_expected:
        name = _capital(str(Client.of(missing[0].member)))
        member = known.member(missing[0].member)
        session_ms = session_left_ms(member)
        outage = None if member is None else _outage_of(known, member)
        if session_ms is not None and outage is not None:
            yield (
                f"{name} has not been heard since {outage}: it may not have found the coordinator"
                f" again yet. The group goes on without it in {duration(session_ms)}."
            )
        elif session_ms is not None:
            yield (
                f"{name} has not {_did(known)} and sends no heartbeats either: it was killed,"
                f" paused or cut off. The group goes on without it in {duration(session_ms)}, when"
                " its session ends."
            )
        else:
            yield (
                f"{name} sends heartbeats, but has not polled since the rebalance began. A client"
                f" {'gives up partitions' if known.is_newer else 'joins again'} when it polls next;"
                f" if it does not, the group goes on without it in {duration(left_ms)} at the"
                " latest."
            )


def _outage_of(known: KnownGroup, member: ExplainedMember) -> Outage | None:
    """The outage of a coordinator since a member was heard; one that the present coordinator has
    never heard was last heard by the former one.
    """
    heard_ms = known.now_wall_ms - (member.quiet_ms or 0)
    if heard_ms <= known.periods[-1].since_wall_ms + NOTICED_MS:
        heard_ms -= member.session_timeout_ms
    return known.outage_between(heard_ms, known.now_wall_ms)


def _session_over(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Members whose heartbeats stopped."""
    times: Counter[Client] = Counter()
    limits_ms: dict[Client, int] = {}
    for rebalance in rebalances:
        for cause in _causes([rebalance], CauseKind.SESSION_TIMEOUT):
            if cause.member is not None and known.outage_behind(rebalance, cause) is None:
                client = Client.of(cause.member)
                times[client] += 1
                limits_ms[client] = cause.timeout_ms or 0
    raise_it = (
        "consumer.session.timeout.ms of the group" if known.is_newer else "session.timeout.ms"
    )
    for client, count in times.most_common(3):
        yield (
            f"{_capital(str(client))} sent no heartbeat within"
            f" {known.session_setting}={limits_ms[client]} ({_times(count)}): it was killed, paused"
            " or cut off. If it ends on purpose, let it close its consumer, which leaves the group"
            " at once; if it was only slow (garbage collection, a busy machine), raise"
            f" {raise_it}."
        )


def _late(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Members that joined, but long after the others."""
    times: Counter[Client] = Counter()
    lost_ms: Counter[Client] = Counter()
    for cost in _all_costs(known, rebalances, CostKind.LATE):
        if cost.member is not None and cost.ms >= _SLOW_MS:
            times[Client.of(cost.member)] += 1
            lost_ms[Client.of(cost.member)] += cost.ms
    did, does, hears = "joined", "joins again", "heartbeat.interval.ms, by default 3 s"
    if known.is_newer:
        did, does = "gave up its partitions", "gives up partitions"
        hears = "group.consumer.heartbeat.interval.ms, by default 5 s"
    for client, lost in lost_ms.most_common(2):
        yield (
            f"{_capital(str(client))} {did} last ({_times(times[client])}) and made the others"
            f" wait {duration(lost)}: a client hears of a rebalance by its next heartbeat"
            f" ({hears}) and {does} when it polls next. What is longer than that interval, it"
            " works on a batch: smaller ones (max.poll.records) make rebalances shorter."
        )


def _heartbeats(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Members that had to wait for each other's heartbeats, and no one of them for longer."""
    if not known.is_newer:
        return
    slow = [
        each.joining_ms
        for each in rebalances
        if each.joining_ms is not None
        and each.joining_ms >= _SLOW_MS
        and all(cost.ms < NOTICED_MS for cost in costs(each, known.now_ms))
    ]
    if slow:
        yield (
            f"Reconciling took {duration(max(slow))} ({_times(len(slow))}), and no member was"
            " slower than the others: a member hears by its next heartbeat what it is to give up,"
            " and what others have given up for it. A shorter consumer.heartbeat.interval.ms of the"
            " group (by default 5 s, and at least the brokers'"
            " group.consumer.min.heartbeat.interval.ms) makes that shorter."
        )


def _comes_back(_known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Clients that leave without saying why, and are back soon."""
    left_at: dict[Client, int] = {}
    times: Counter[Client] = Counter()
    for rebalance in rebalances:
        for cause in rebalance.causes:
            if cause.member is None or cause.member.group_instance_id is not None:
                continue
            at_ms = rebalance.started_wall_ms + cause.after_ms
            client = Client.of(cause.member)
            if cause.kind is CauseKind.MEMBER_LEFT and not _is_no_poll(cause):
                left_at[client] = at_ms
            elif cause.kind is CauseKind.MEMBER_JOINED:
                before_ms = left_at.pop(client, None)
                if before_ms is not None and at_ms - before_ms <= _COMES_BACK_MS:
                    times[client] += 1
    for client, count in times.most_common(2):
        yield (
            f"{_capital(str(client))} left and came back ({_times(count)}). If it was restarted,"
            " give it a group.instance.id and a session.timeout.ms longer than a restart: then it"
            " keeps its partitions and nobody rebalances. If it was not, it did not poll within"
            " max.poll.interval.ms: librdkafka leaves then without giving a reason."
        )


def _initial_delay(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """What the first members of an empty group waited for."""
    found = [cost.ms for cost in _all_costs(known, rebalances, CostKind.INITIAL_DELAY)]
    if sum(found) >= _SLOW_MS:
        yield (
            f"The first members of the empty group waited {duration(sum(found))}"
            f" ({_times(len(found))}) for others because of the brokers'"
            " group.initial.rebalance.delay.ms: it saves rebalances where many start together; 0"
            " suits tests and groups of one."
        )


def _one_by_one(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Members that start one after the other, where each of them stops the others."""
    if known.is_newer:
        return
    starts = [
        each.started_wall_ms
        for each in rebalances
        if each.causes and each.causes[0].kind is CauseKind.MEMBER_JOINED and each.members_before
    ]
    close = [later - earlier <= 10_000 for earlier, later in pairwise(starts)]
    if sum(close) >= 2:
        yield (
            f"Members joined one after the other, each with a rebalance of its own"
            f" ({_times(sum(close) + 1)}): start them together, or use an assignor that lets the"
            " others go on meanwhile (cooperative-sticky)."
        )


def _assigning(_known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Leaders that take long to assign, or never do."""
    lost = [cause for cause in _causes(rebalances, CauseKind.SYNC_TIMEOUT) if cause.member]
    for member in dict.fromkeys(cause.member for cause in lost):
        if member is not None:
            yield (
                f"{_capital(str(Client.of(member)))} joined and then did not ask for its"
                " assignment: it was stopped in the middle of the rebalance."
            )
            break
    slow = [each for each in rebalances if (each.assigning_ms or 0) >= _SLOW_MS and each.leader]
    if slow and slow[-1].leader is not None:
        yield (
            f"{_capital(str(Client.of(slow[-1].leader)))} leads the group and took"
            f" {duration(slow[-1].assigning_ms or 0)} to assign the partitions: it is busy, or its"
            " assignor is slow for so many."
        )
    not_stored = _causes(rebalances, CauseKind.ASSIGNMENT_NOT_STORED)
    if any(cause.detail != _MOVED for cause in not_stored):
        yield (
            "An assignment could not be stored: look at the in-sync replicas of"
            f" __consumer_offsets ({launcher()} topics describe __consumer_offsets)."
        )


def _too_large(_known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    if any(_causes(rebalances, CauseKind.OVER_CAPACITY)):
        yield (
            "The group has more members than the brokers' group.max.size allows: raise it, or run"
            " fewer."
        )


def _often(known: KnownGroup, rebalances: list[Rebalance]) -> Iterator[str]:
    """Many rebalances by an assignor that stops everybody."""
    name = known.group.protocol_name
    recent = [each for each in rebalances if known.now_wall_ms - each.started_wall_ms <= _OFTEN_MS]
    if len(recent) >= _OFTEN and name in _STOPS_ALL and not known.is_newer:
        yield (
            f"The group rebalanced {len(recent)} times within {duration(_OFTEN_MS)}, and by"
            f" {name} every member stops in each of them: with cooperative-sticky as"
            " partition.assignment.strategy only partitions that move are stopped."
        )


_RULES: Final[tuple[Callable[[KnownGroup, list[Rebalance]], Iterator[str]], ...]] = (
    _coordinator_was_away,
    _waits_now,
    _no_poll,
    _session_over,
    _late,
    _heartbeats,
    _assigning,
    _too_large,
    _comes_back,
    _initial_delay,
    _one_by_one,
    _often,
)


def _causes(rebalances: list[Rebalance], kind: CauseKind) -> list[Cause]:
    return [cause for each in rebalances for cause in each.causes if cause.kind is kind]


def _all_costs(known: KnownGroup, rebalances: list[Rebalance], kind: CostKind) -> list[Cost]:
    return [
        cost
        for each in rebalances
        for cost in costs(each, known.now_ms)
        if cost.kind is kind and cost.ms >= NOTICED_MS
    ]


def _did(known: KnownGroup) -> str:
    return "given up its partitions" if known.is_newer else "joined again"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
