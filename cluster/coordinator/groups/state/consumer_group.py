"""A group of the newer consumer protocol: its epochs, members and assignments. Pure.

Kafka: `ConsumerGroup`. All stored state is held in values (`state/consumer_values.py`), and one
`set_` method replaces each as a whole. So loading, changing and undoing run the same code. What
follows from the stored values (partition owners, subscribed topics) is kept beside them.
"""

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol

from cluster.coordinator.groups.history.rebalances import CauseKind, History, Waited, WhoseMember
from cluster.coordinator.groups.shared.topics import Partitions, TopicId
from cluster.coordinator.groups.state.consumer_values import (
    NEW_MEMBER,
    NO_METADATA,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
)
from cluster.coordinator.groups.state.group_offsets import GroupOffsets
from cluster.coordinator.groups.state.state_times import StateTimes
from cluster.coordinator.groups.state.subscriptions import Subscriptions, add_count
from cluster.coordinator.shards.alarms import Alarm
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.printable import NAME_MAX_CHARACTERS

UNWRITTEN: Final = GroupEpoch(0, 0)
"""The epoch of a group that has no records yet."""


class ConsumerState(Enum):
    """Names as in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The epoch of the target assignment is older than the group's."""
    RECONCILING = "Reconciling"
    """Some members do not have their target assignment yet."""
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerMember:
    """The two stored values of a member, and its deadlines."""

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
        """The next heartbeat is due by then."""
        self.rebalance = rebalance
        """Partitions must be revoked by then. A classic member must send what `awaits` names."""
        self.awaits = CauseKind.JOIN_TIMEOUT
        self.reached_ms: int | None = None
        """Monotonic time at which the member reached the newest epoch; None if it has not."""

    def session_ms(self, usual_ms: int) -> int:
        """The session timeout: that of the group, or the member's own if it is a classic one."""
        classic = self.metadata.classic
        return usual_ms if classic is None else classic.session_timeout_ms

    def release(self) -> None:
        """Drop the alarms, which refer to the member."""
        self.session.drop()
        self.rebalance.drop()

    @property
    def who(self) -> WhoseMember:
        """The member's names, cut to a length that a person reads."""
        metadata = self.metadata
        instance_id = metadata.instance_id
        return WhoseMember(
            self.member_id[:NAME_MAX_CHARACTERS],
            metadata.client_id[:NAME_MAX_CHARACTERS],
            metadata.client_host,
            None if instance_id is None else instance_id[:NAME_MAX_CHARACTERS],
        )


class MemberAlarms(Protocol):
    """Makes the alarms of members. An alarm is not set at first."""

    def session(self, group: "ConsumerGroup", member_id: str) -> Alarm:
        """The alarm of the session timeout."""
        ...

    def rebalance(self, group: "ConsumerGroup", member_id: str) -> Alarm:
        """The alarm of the rebalance timeout."""
        ...


class ConsumerGroup:
    """Invariants: at most one member owns a partition, also while it revokes it; an instance id
    belongs to one member; derived values match the stored ones."""

    __slots__ = (
        "_alarms",
        "_assignors",
        "_owners",
        "assignment_epoch",
        "classic_count",
        "classic_protocols",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "history",
        "is_metadata_due",
        "members",
        "offsets",
        "refreshed_ms",
        "static_members",
        "stray_topics",
        "subscriptions",
        "target",
        "times",
    )

    def __init__(self, group_id: str, alarms: MemberAlarms, offsets: GroupOffsets) -> None:
        self.group_id = group_id
        self._alarms = alarms
        self.offsets = offsets
        self.epoch = UNWRITTEN
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, Partitions] = {}
        """The target assignment by member id."""
        self.subscriptions = Subscriptions()
        self.has_partition_metadata = False
        """The log holds a record of Kafka 4.0, to be removed with the next epoch."""
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.is_metadata_due = True
        """Topics may have changed since the epoch was computed."""
        self.stray_topics: set[str] | None = None
        """Topics changed since the expressions were resolved; None: any may have."""
        self.refreshed_ms: MonotonicMs | None = None
        """When this broker last resolved the expressions; None: never."""
        self.history = History()
        self.times = StateTimes(ConsumerState.EMPTY)
        self._owners: dict[tuple[TopicId, int], str] = {}
        """The member that owns a partition, also while it revokes it."""
        self._assignors: Counter[str] = Counter()
        """How many members prefer an assignor."""
        self.classic_count = 0
        """How many members use the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """How many classic members support a protocol. Read only."""

    # ------------------------------------------------------------------ stored values

    def set_metadata(self, member_id: str, metadata: MemberMetadata | None) -> None:
        """Set a member's metadata; None: it is not stored."""
        member = self._member(member_id)
        self._count(member.metadata, -1)
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        member.metadata = NO_METADATA if metadata is None else metadata
        self._count(member.metadata, 1)
        if member.metadata.instance_id is not None:
            self.static_members[member.metadata.instance_id] = member_id
        self._remove_if_not_stored(member)

    def set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        """Set a member's current assignment; None: it is not stored."""
        member = self._member(member_id)
        owners = self._owners
        for key in _keys(member.current):
            if owners.get(key) == member_id:
                del owners[key]
        member.current = NEW_MEMBER if current is None else current
        for key in _keys(member.current):
            owners.setdefault(key, member_id)  # only a damaged log assigns it to two members
        self._remove_if_not_stored(member)

    def _remove_if_not_stored(self, member: ConsumerMember) -> None:
        if member.metadata is NO_METADATA and member.current is NEW_MEMBER:
            member.release()
            del self.members[member.member_id]

    def compute_owners(self) -> None:
        """Find the owner of each partition after loading, which takes records in any order."""
        self._owners.clear()
        for member in self.members.values():
            for key in _keys(member.current):
                self._owners.setdefault(key, member.member_id)

    def set_target(self, member_id: str, partitions: Partitions | None) -> None:
        """Set a member's target assignment; None: it is not stored."""
        if partitions is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = partitions

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            alarms = self._alarms
            member = self.members[member_id] = ConsumerMember(
                member_id, alarms.session(self, member_id), alarms.rebalance(self, member_id)
            )
        return member

    def _count(self, metadata: MemberMetadata, change: int) -> None:
        self.subscriptions.count(metadata, change)
        if metadata.server_assignor is not None:
            add_count(self._assignors, metadata.server_assignor, change)
        if metadata.classic is not None:
            self.classic_count += change
            for name in {each.name for each in metadata.classic.protocols}:
                add_count(self.classic_protocols, name, change)

    # ------------------------------------------------------------------ derived values

    def is_free(self, topic_id: TopicId, number: int) -> bool:
        """Whether no member owns this partition."""
        return (topic_id, number) not in self._owners

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member may consume the topic."""
        return self.subscriptions.include(topic)

    def assignor(self, default: str) -> str:
        """The assignor that most members prefer; of a tie the default, or the first by name."""
        counts = self._assignors
        return min(counts, key=lambda name: (-counts[name], name != default, name), default=default)

    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of a member."""
        return max(
            (each.metadata.rebalance_timeout_ms for each in self.members.values()), default=0
        )

    @property
    def has_only_classic_members(self) -> bool:
        """Whether there are members and all of them use the classic protocol."""
        return 0 < self.classic_count == len(self.members)

    @property
    def is_written(self) -> bool:
        """Whether the group has records of its own."""
        return self.epoch.epoch > 0

    # ------------------------------------------------------------------ states

    def state(self) -> ConsumerState:
        """The state that follows from the members. Kafka: `maybeUpdateGroupState`."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        epoch = self.assignment_epoch
        if all(each.current.is_reconciled_to(epoch) for each in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def start_times(self, now: Moment) -> None:
        """Measure the time in states from now: the group was created or loaded."""
        self.times.start(self.state(), now)

    def note_state(self, now: Moment, default_assignor: str) -> None:
        """Update the time in states after a change, and end a rebalance that is complete."""
        state = self.state()
        self.times.enter(state, now)
        for member in self.members.values():
            if not self.has_reached_epoch(member):
                member.reached_ms = None
            elif member.reached_ms is None:
                member.reached_ms = now.monotonic_ms
        if state in (ConsumerState.STABLE, ConsumerState.EMPTY):
            assignor = self.assignor(default_assignor)
            timeout_ms = self.rebalance_timeout_ms()
            self.history.reconciled(self.waited(), now, self.epoch.epoch, assignor, timeout_ms)

    def has_reached_epoch(self, member: ConsumerMember) -> bool:
        """Whether the member is in the newest epoch; it may still wait for others to revoke."""
        return member.current.member_epoch == self.epoch.epoch

    def waited(self) -> Iterator[Waited]:
        """When each member reached the newest epoch, if it has."""
        for member in self.members.values():
            yield Waited(member.who, member.reached_ms)

    def release(self) -> None:
        """Drop all alarms, which refer to the group: no reference cycle keeps it in memory."""
        for member in self.members.values():
            member.release()


def _keys(current: CurrentAssignment) -> Iterator[tuple[TopicId, int]]:
    for partitions in (current.assigned, current.revoking):
        for topic_id, numbers in partitions.items():
            for number in numbers:
                yield topic_id, number
