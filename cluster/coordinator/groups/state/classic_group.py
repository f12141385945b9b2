"""A group of the classic protocol: its state, members and generation. Pure.

Kafka: `ClassicGroup`. Timeouts and replies are handled in `classic/rebalancing.py`.
"""

from collections.abc import Iterator, Mapping

from cluster.coordinator.groups.history.rebalances import History, Waited, WhoseMember
from cluster.coordinator.groups.requests import NO_TIMESTAMP
from cluster.coordinator.groups.shared.subscription import CONSUMER, subscribed_topics
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import RULES, GroupState, Rules
from cluster.coordinator.groups.state.group_offsets import GroupOffsets
from cluster.coordinator.groups.state.roster import Roster
from cluster.coordinator.groups.state.state_times import StateTimes
from cluster.coordinator.shards.alarms import Alarm
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode
from cluster.model.errors import ensure


class ClassicGroup:
    """Invariants: each token that waits belongs to a member; the generation never decreases."""

    __slots__ = (
        "generation_id",
        "generation_size",
        "group_id",
        "history",
        "is_initial",
        "join_alarm",
        "members",
        "new_member_added",
        "offsets",
        "pending_join",
        "protocol_name",
        "remaining_delay_ms",
        "roster",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "sync_alarm",
        "times",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.times = StateTimes(GroupState.EMPTY)
        self.state_timestamp_ms = NO_TIMESTAMP
        """Wall time of the last state change, as it is stored; -1 if it is not known."""
        self.generation_id = 0
        self.generation_size = 0
        """Number of members when the generation began."""
        self.protocol_name: str | None = None
        self.roster = Roster()
        self.members: Mapping[str, Member] = self.roster.members
        self.static_members: Mapping[str, str] = self.roster.static_members
        """Member ids by instance id."""
        self.pending_join: dict[str, Alarm] = {}
        """Member ids that were assigned (KIP-394) but not used to join yet, until they expire."""
        self.subscribed_topics: frozenset[str] | None = frozenset()
        """The topics of all members; None if their metadata cannot be read."""
        self.is_initial = False
        """The group was empty: the initial delay gives other members time to join."""
        self.new_member_added = False
        """A member joined since the initial delay was last extended."""
        self.remaining_delay_ms = 0
        """By how much the initial delay may still be extended."""
        self.join_alarm: Alarm | None = None
        self.sync_alarm: Alarm | None = None
        self.offsets = GroupOffsets()
        self.history = History()

    # ------------------------------------------------------------------ states

    @property
    def rules(self) -> Rules:
        """The row of the current state."""
        return RULES[self.state]

    def transition(self, state: GroupState, now: Moment) -> None:
        """Enter another state. Raises InvariantViolated if the table has no such transition."""
        ensure(self.state in RULES[state].comes_from, "a group made an impossible transition")
        self.times.enter(state, now)
        self.state = state
        self.state_timestamp_ms = now.wall_ms

    def start_times(self, now: Moment) -> None:
        """Measure the time in states from now: the group was created or loaded."""
        self.times.start(self.state, now)

    @property
    def is_disposable(self) -> bool:
        """Whether nothing is lost with the group: no members, none that may join, no offsets,
        no stored generation."""
        return (
            self.state is GroupState.EMPTY
            and not self.generation_id
            and not self.pending_join
            and self.offsets.is_unused
        )

    # ------------------------------------------------------------------ checks

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check who sent a request; an instance id decides before the member id does.

        Kafka: `validateMember`.
        """
        if group_instance_id is not None:
            known_id = self.static_members.get(group_instance_id)
            if known_id is None:
                return ErrorCode.unknown_member_id
            if known_id != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def check_generation(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Check who sent a request, and that the sender is of the current generation."""
        error = self.check_member(member_id, group_instance_id)
        if error is ErrorCode.none and generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        return error

    def has_room_for(self, member_id: str, max_size: int) -> bool:
        """Whether the group stays within group.max.size with this member.

        While members join, only those that have joined count. So a group that is too large because
        the setting was lowered loses the members that join last.
        """
        if self.state is GroupState.EMPTY:
            return True
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.join_token is not None
            return is_waiting or self.roster.joining_count < max_size
        return member is not None or len(self.members) < max_size

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member may consume the topic; true if subscriptions cannot be read."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    @property
    def have_all_joined(self) -> bool:
        """Whether all members wait for the next generation and no assigned member id is unused."""
        return self.roster.joining_count == len(self.members) and not self.pending_join

    def waited(self) -> Iterator[Waited]:
        """When each member rejoined, if it has; also the member ids that are not used yet."""
        for member in self.members.values():
            has_joined = member.join_token is not None
            yield Waited(member.who, member.joined_again_ms if has_joined else None)
        for member_id in self.pending_join:
            yield Waited(WhoseMember(member_id, "", ""), None, is_expected=True)

    # ------------------------------------------------------------------ generations

    def begin_generation(self, now: Moment) -> None:
        """Begin the next generation with the current members."""
        self.generation_id = (self.generation_id + 1) & 0x7FFFFFFF
        self.generation_size = len(self.members)
        self.roster.pending_sync.clear()
        if self.members:
            self.protocol_name = self.roster.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, now)
        else:
            self.protocol_name = None
            self.transition(GroupState.EMPTY, now)
        self.update_subscribed_topics()

    def update_subscribed_topics(self) -> None:
        """Read the subscriptions of all members. Kafka: `computeSubscribedTopics`."""
        if not self.members:
            self.subscribed_topics = frozenset()
            return
        self.subscribed_topics = None
        if self.roster.protocol_type != CONSUMER or self.protocol_name is None:
            return
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return
            topics |= subscribed
        self.subscribed_topics = frozenset(topics)

    # ------------------------------------------------------------------ removal

    def clear(self) -> None:
        """Forget everything but the offsets. The group is Empty or being loaded."""
        self.roster.clear()
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = NO_TIMESTAMP
        self.generation_id = self.generation_size = 0
        self.protocol_name = None
        self.subscribed_topics = frozenset()

    def release(self) -> None:
        """Drop all alarms, which refer to the group: no reference cycle keeps it in memory."""
        for member in self.members.values():
            member.session.drop()
        for alarm in (*self.pending_join.values(), self.join_alarm, self.sync_alarm):
            if alarm is not None:
                alarm.drop()
        self.pending_join.clear()
