"""A group of the newer consumer protocol: its epochs, members and assignments. Pure.

Kafka: `ConsumerGroup`. All stored state is held in values (`state/consumer_values.py`), and one
`set_` method replaces each as a whole. So loading, changing and undoing run the same code. What
follows from the stored values (partition owners, subscribed topics) is kept beside them.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Final, Protocol

from cluster.coordinator.groups.history.rebalances import (
    CauseKind,
    History,
    Rebalance,
    Waited,
    WhoseMember,
    slowest,
)
from cluster.coordinator.groups.shared.topics import Partitions, TopicId
from cluster.coordinator.groups.state.consumer_values import (
    NEW_MEMBER,
    NO_METADATA,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    ResolvedExpression,
)
from cluster.coordinator.groups.state.group_offsets import GroupOffsets
from cluster.coordinator.shards.alarms import Alarm
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.printable import NAME_MAX_CHARACTERS

UNWRITTEN: Final = GroupEpoch(0, 0)
"""Of a group of which nothing is stored yet."""


class ConsumerState(Enum):
    """By the names that ConsumerGroupDescribe and ListGroups have."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target assignment is of an older epoch than the group."""
    RECONCILING = "Reconciling"
    """Not every member has its target."""
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerMember:
    """One member: two stored values, and its deadlines."""

    __slots__ = (
        "awaits",
        "current",
        "member_id",
        "metadata",
        "reached_ms",
        "rebalance",
        "session",
    )

    def __init__(self, member_id: str, session: Alarm, rebalance: Alarm) -> None:
        self.member_id = member_id
        self.metadata = NO_METADATA
        self.current = NEW_MEMBER
        self.session = session
        """It has to send a heartbeat until then."""
        self.rebalance = rebalance
        """It has to have given up what it was told to until then; a member that uses the classic
        protocol has to have sent what `awaits` says."""
        self.awaits = CauseKind.JOIN_TIMEOUT
        self.reached_ms: int | None = None
        """When it had done its part in the newest epoch, by the monotonic clock; None if it has
        not."""

    def session_ms(self, usual_ms: int) -> int:
        """Its session timeout: a member that uses the classic protocol brings its own."""
        classic = self.metadata.classic
        return usual_ms if classic is None else classic.session_timeout_ms

    def let_go(self) -> None:
        """It is gone."""
        self.session.drop()
        self.rebalance.drop()

    @property
    def who(self) -> WhoseMember:
        """For a person; what is longer than anybody reads is cut."""
        metadata = self.metadata
        instance_id = metadata.instance_id
        return WhoseMember(
            self.member_id[:NAME_MAX_CHARACTERS],
            metadata.client_id[:NAME_MAX_CHARACTERS],
            metadata.client_host,
            None if instance_id is None else instance_id[:NAME_MAX_CHARACTERS],
        )


class MemberAlarms(Protocol):
    """How a group makes the deadlines of its members."""

    def session(self, group: "ConsumerGroup", member_id: str) -> Alarm:
        """A session timeout, not set."""
        ...

    def rebalance(self, group: "ConsumerGroup", member_id: str) -> Alarm:
        """A rebalance timeout, not set."""
        ...


class ConsumerGroup:
    """Invariants: a partition has at most one member, whether that uses it or is giving it up; an
    instance id has one member; what is kept beside the stored values follows from them."""

    __slots__ = (
        "_alarms",
        "_assignors",
        "_expressions_of",
        "_names",
        "_owners",
        "assignment_epoch",
        "classic_count",
        "classic_protocols",
        "current_state",
        "entered_ms",
        "epoch",
        "expressions",
        "group_id",
        "has_partition_metadata",
        "history",
        "is_metadata_due",
        "members",
        "offsets",
        "refreshed_ms",
        "spent_ms",
        "state_since_ms",
        "static_members",
        "stray_topics",
        "target",
    )

    def __init__(self, group_id: str, alarms: MemberAlarms, offsets: GroupOffsets) -> None:
        self.group_id = group_id
        self._alarms = alarms
        self.offsets = offsets
        self.epoch = UNWRITTEN
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, Partitions] = {}
        """By member id."""
        self.expressions: dict[str, ResolvedExpression] = {}
        """Those that have been resolved."""
        self.has_partition_metadata = False
        """A record of Kafka 4.0 is in the log, and is to be removed with the next epoch."""
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.is_metadata_due = True
        """Topics may have changed since the epoch was computed."""
        self.stray_topics: set[str] | None = None
        """Topics that changed since the expressions were resolved; None: look at all."""
        self.refreshed_ms: MonotonicMs | None = None
        """When expressions were resolved last; None: not here."""
        self.history = History()
        self.current_state = ConsumerState.EMPTY
        self.state_since_ms: MonotonicMs | None = None
        """Its time in the state is counted up to then."""
        self.entered_ms: MonotonicMs | None = None
        """When it came into the state."""
        self.spent_ms: dict[ConsumerState, int] = {}
        self._owners: dict[tuple[TopicId, int], str] = {}
        """Which member has a partition or is giving it up."""
        self._names: Counter[str] = Counter()
        """How many members name a topic."""
        self._expressions_of: Counter[str] = Counter()
        """How many members have an expression."""
        self._assignors: Counter[str] = Counter()
        """How many members prefer an assignor."""
        self.classic_count = 0
        """How many members use the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """How many of them support a protocol; to be read only."""

    # ------------------------------------------------------------------ what is stored

    def set_metadata(self, member_id: str, metadata: MemberMetadata | None) -> None:
        """Who a member is; None: nothing is stored."""
        member = self._member(member_id)
        self._count(member.metadata, -1)
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        member.metadata = NO_METADATA if metadata is None else metadata
        self._count(member.metadata, 1)
        if member.metadata.instance_id is not None:
            self.static_members[member.metadata.instance_id] = member_id
        self._drop_if_nothing_is_stored(member)

    def set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        """What a member has; None: nothing is stored."""
        member = self._member(member_id)
        owners = self._owners
        for key in _keys(member.current):
            if owners.get(key) == member_id:
                del owners[key]
        member.current = NEW_MEMBER if current is None else current
        for key in _keys(member.current):
            owners.setdefault(key, member_id)  # only damage in the log gives it to two
        self._drop_if_nothing_is_stored(member)

    def _drop_if_nothing_is_stored(self, member: ConsumerMember) -> None:
        if member.metadata is NO_METADATA and member.current is NEW_MEMBER:
            member.let_go()
            del self.members[member.member_id]

    def note_owners(self) -> None:
        """Find out who has which partition: after loading, which may come in any order."""
        self._owners.clear()
        for member in self.members.values():
            for key in _keys(member.current):
                self._owners.setdefault(key, member.member_id)

    def set_target(self, member_id: str, partitions: Partitions | None) -> None:
        """What a member is to have; None: nothing is stored."""
        if partitions is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = partitions

    def set_expression(self, text: str, resolved: ResolvedExpression | None) -> None:
        """The topics of an expression; None: nothing is stored."""
        if resolved is None:
            self.expressions.pop(text, None)
        else:
            self.expressions[text] = resolved

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            alarms = self._alarms
            member = self.members[member_id] = ConsumerMember(
                member_id, alarms.session(self, member_id), alarms.rebalance(self, member_id)
            )
        return member

    def _count(self, metadata: MemberMetadata, change: int) -> None:
        for name in metadata.subscribed_topic_names:
            _add(self._names, name, change)
        if metadata.regex is not None:
            _add(self._expressions_of, metadata.regex, change)
        if metadata.server_assignor is not None:
            _add(self._assignors, metadata.server_assignor, change)
        if metadata.classic is not None:
            self.classic_count += change
            for name in {each.name for each in metadata.classic.protocols}:
                _add(self.classic_protocols, name, change)

    # ------------------------------------------------------------------ what follows from it

    def is_free(self, topic_id: TopicId, number: int) -> bool:
        """Whether no member has this partition or is still giving it up."""
        return (topic_id, number) not in self._owners

    def subscribed_expressions(self) -> Counter[str]:
        """How many members have each expression; to be read only."""
        return self._expressions_of

    def subscribed_topics(self) -> set[str]:
        """Names of the topics that members subscribe to, by name or by expression; some may not
        exist."""
        topics = set(self._names)
        for resolved in self.expressions.values():
            topics |= resolved.topics
        return topics

    def topics_of(self, metadata: MemberMetadata) -> frozenset[str]:
        """The same of one member."""
        names = metadata.subscribed_topic_names
        resolved = None if metadata.regex is None else self.expressions.get(metadata.regex)
        return names if resolved is None else names | resolved.topics

    def stands_for_topics(self, regex: str | None) -> bool:
        """Whether there are topics of an expression that has been resolved."""
        return regex in self.expressions and bool(self.expressions[regex].topics)

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member may be reading the topic."""
        return topic in self._names or any(
            topic in resolved.topics for resolved in self.expressions.values()
        )

    def subscribes_to_any(self, topics: Collection[str]) -> bool:
        """The same of several."""
        return not self._names.keys().isdisjoint(topics) or any(
            not resolved.topics.isdisjoint(topics) for resolved in self.expressions.values()
        )

    def assignor(self, default: str) -> str:
        """That most members prefer; of equals the default, or the first by name."""
        counts = self._assignors
        return min(counts, key=lambda name: (-counts[name], name != default, name), default=default)

    def rebalance_timeout_ms(self) -> int:
        """The largest of the members'."""
        return max(
            (each.metadata.rebalance_timeout_ms for each in self.members.values()), default=0
        )

    # ------------------------------------------------------------------ states

    @property
    def has_only_classic_members(self) -> bool:
        """Whether it has members, and all of them use the classic protocol."""
        return 0 < self.classic_count == len(self.members)

    @property
    def is_written(self) -> bool:
        """Whether it has records of its own."""
        return self.epoch.epoch > 0

    def state(self) -> ConsumerState:
        """As its members are now. Kafka: `maybeUpdateGroupState`."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        epoch = self.assignment_epoch
        if all(each.current.is_reconciled_to(epoch) for each in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def enter(self, state: ConsumerState, now: Moment) -> None:
        """It is in this state from now on; the time in the one before is counted."""
        before, since_ms = self.current_state, self.state_since_ms
        if since_ms is not None:
            self.spent_ms[before] = self.spent_ms.get(before, 0) + now.monotonic_ms - since_ms
        if state is not before or self.entered_ms is None:
            self.entered_ms = now.monotonic_ms
        self.current_state = state
        self.state_since_ms = now.monotonic_ms

    def begin(self, now: Moment) -> None:
        """It was loaded: the time in its state counts from now."""
        self.current_state = self.state()
        self.state_since_ms = self.entered_ms = now.monotonic_ms

    def note_state(self, now: Moment, default_assignor: str) -> None:
        """Something has changed: count the time in states, and end a rebalance that is over."""
        state = self.state()
        self.enter(state, now)
        for member in self.members.values():
            if not self.has_done_its_part(member):
                member.reached_ms = None
            elif member.reached_ms is None:
                member.reached_ms = now.monotonic_ms
        if state in (ConsumerState.STABLE, ConsumerState.EMPTY):
            assignor = self.assignor(default_assignor)
            timeout_ms = self.rebalance_timeout_ms()
            self.history.reconciled(self.waited(), now, self.epoch.epoch, assignor, timeout_ms)

    def has_done_its_part(self, member: ConsumerMember) -> bool:
        """Whether nobody waits for the member any more; it may have to wait for others."""
        return member.current.member_epoch == self.epoch.epoch

    def waited(self) -> Iterator[Waited]:
        """Every member, and when it had done its part if it has."""
        for member in self.members.values():
            yield Waited(member.who, member.reached_ms)

    def rebalances(self, now: Moment) -> tuple[Rebalance, ...]:
        """The last ones; in one that runs, `slowest` is as of now. They are not to be changed."""
        rebalance = self.history.current
        if rebalance is not None:
            rebalance.rebalance_timeout_ms = self.rebalance_timeout_ms()
            rebalance.slowest = slowest(rebalance, self.waited(), now)
        return self.history.all()

    def state_times_ms(self, now: Moment) -> dict[str, int]:
        """How long it has been in each state."""
        times = {state.value: spent for state, spent in self.spent_ms.items()}
        if self.state_since_ms is not None:
            name = self.current_state.value
            times[name] = times.get(name, 0) + now.monotonic_ms - self.state_since_ms
        return times

    def let_go(self) -> None:
        """It is no more: none of its deadlines comes, and it is kept in memory by nothing but those
        who know it."""
        for member in self.members.values():
            member.let_go()


def _keys(current: CurrentAssignment) -> Iterator[tuple[TopicId, int]]:
    for partitions in (current.assigned, current.revoking):
        for topic_id, numbers in partitions.items():
            for number in numbers:
                yield topic_id, number


def _add(counter: Counter[str], name: str, change: int) -> None:
    counter[name] += change
    if not counter[name]:
        del counter[name]
