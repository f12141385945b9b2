"""A group of the classic protocol: its members, their votes, its generation. Pure.

Kafka: `ClassicGroup`. It knows nothing of time-outs and answers: those are in `rebalancing.py`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from cluster.coordinator.groups.history.rebalances import (
    History,
    Rebalance,
    Waited,
    WhoseMember,
    slowest,
)
from cluster.coordinator.groups.requests import (
    NO_TIMESTAMP,
    DescribedMember,
    GroupDescription,
    GroupProtocol,
    JoinedMember,
)
from cluster.coordinator.groups.shared.records import StoredGroup, StoredMember
from cluster.coordinator.groups.shared.subscription import CONSUMER, subscribed_topics
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import RULES, GroupState, Rules
from cluster.coordinator.groups.state.group_offsets import GroupOffsets
from cluster.coordinator.shards.alarms import Alarm
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.error_codes import ErrorCode
from cluster.model.errors import ensure


class ClassicGroup:
    """Invariants: a group with members has a leader among them and a protocol type; an instance id
    has one member; each token that waits is that of a member; the generation never falls."""

    __slots__ = (
        "_awaiting_join",
        "_support",
        "generation_id",
        "generation_size",
        "group_id",
        "history",
        "is_initial",
        "join_alarm",
        "leader_id",
        "members",
        "new_member_added",
        "offsets",
        "pending_join",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "remaining_delay_ms",
        "spent_ms",
        "state",
        "state_since_ms",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "sync_alarm",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms: MonotonicMs | None = None
        """By the monotonic clock; None: since it was loaded."""
        self.state_timestamp_ms = NO_TIMESTAMP
        """By the calendar, as it is stored; -1 if that is not known."""
        self.spent_ms: dict[GroupState, int] = {}
        """In states it has left."""
        self.generation_id = 0
        self.generation_size = 0
        """Members when it began."""
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_join: dict[str, Alarm] = {}
        """Member ids that were given out (KIP-394) but have not joined, until they expire."""
        self.pending_sync: set[str] = set()
        """Members of the generation that have not asked for their assignment."""
        self.subscribed_topics: frozenset[str] | None = frozenset()
        """Of all members; None if that cannot be known."""
        self.is_initial = False
        """The members that join are the first: others are given time (the initial delay)."""
        self.new_member_added = False
        """While it is initial: somebody joined since the delay was last extended."""
        self.remaining_delay_ms = 0
        """By how much the initial delay may still be extended."""
        self.join_alarm: Alarm | None = None
        self.sync_alarm: Alarm | None = None
        self.offsets = GroupOffsets()
        self.history = History()
        self._support: Counter[str] = Counter()
        self._awaiting_join = 0

    # ------------------------------------------------------------------ states

    @property
    def rules(self) -> Rules:
        """What the group does in its state."""
        return RULES[self.state]

    def transition(self, state: GroupState, now: Moment) -> None:
        """Enter another state. Raises InvariantViolated if the table has no such way."""
        ensure(self.state in RULES[state].comes_from, "a group went a way that the table lacks")
        if self.state_since_ms is not None:
            spent = now.monotonic_ms - self.state_since_ms
            self.spent_ms[self.state] = self.spent_ms.get(self.state, 0) + spent
        self.state = state
        self.state_since_ms = now.monotonic_ms
        self.state_timestamp_ms = now.wall_ms

    def begin_in_state(self, now: Moment) -> None:
        """Count the time in the present state from now: the group is new, or was loaded."""
        self.state_since_ms = now.monotonic_ms

    def state_times_ms(self, now: Moment) -> dict[str, int]:
        """How long it has been in each state."""
        times = {state.value: spent for state, spent in self.spent_ms.items()}
        if self.state_since_ms is not None:
            name = self.state.value
            times[name] = times.get(name, 0) + now.monotonic_ms - self.state_since_ms
        return times

    @property
    def is_disposable(self) -> bool:
        """Nobody would miss it: no members, none that may come, no offsets, nothing stored."""
        return (
            self.state is GroupState.EMPTY
            and not self.generation_id
            and not self.pending_join
            and self.offsets.is_unused
        )

    # ------------------------------------------------------------------ checks

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Kafka: `validateMember`. An instance id counts more than the member id with it."""
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
        """The same, and then whether it is of the current generation."""
        error = self.check_member(member_id, group_instance_id)
        if error is ErrorCode.none and generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        return error

    def supports(self, protocol_type: str, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether a member with these can be in the group: it has one that all others have."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._support[each.name] == everybody for each in protocols
        )

    def has_room_for(self, member_id: str, max_size: int) -> bool:
        """group.max.size. While members join, those who have done so count: a group that is larger
        than allowed (the setting was lowered) loses those who come last."""
        if self.state is GroupState.EMPTY:
            return True
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.join_token is not None
            return is_waiting or self._awaiting_join < max_size
        return member is not None or len(self.members) < max_size

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member may be reading the topic; true if that cannot be known."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    # ------------------------------------------------------------------ members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest of the members'."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def have_all_joined(self) -> bool:
        """Every member waits for the next generation, and nobody has an id only."""
        return self._awaiting_join == len(self.members) and not self.pending_join

    def not_joined(self) -> list[Member]:
        """Members that have not joined again."""
        return [each for each in self.members.values() if each.join_token is None]

    def add(self, member: Member, protocol_type: str) -> None:
        """A new member; the first makes it the protocol type's group and is its leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member.protocols, 1)
        if member.join_token is not None:
            self._awaiting_join += 1

    def remove(self, member: Member) -> None:
        """It is gone; its tokens have been taken before."""
        ensure(member.join_token is None and member.sync_token is None, "a token is lost")
        del self.members[member.member_id]
        instance_id = member.group_instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        self._count(member.protocols, -1)
        self.pending_sync.discard(member.member_id)
        member.session.drop()
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member has another member id from now on."""
        ensure(member.group_instance_id is not None, "a dynamic member changed its id")
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[str(member.group_instance_id)] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)

    def update(
        self,
        member: Member,
        protocols: tuple[GroupProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """It joins with these from now on."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def wait_to_join(self, member: Member, token: object, now: Moment) -> object | None:
        """It waits for the next generation; the token of a request that did so before."""
        before = self.take_join_token(member)
        member.join_token = token
        member.joined_again_ms = now.monotonic_ms
        self._awaiting_join += 1
        return before

    def take_join_token(self, member: Member) -> object | None:
        """The token of its JoinGroup that waits, which is to be answered; None if none does."""
        token = member.join_token
        if token is not None:
            member.join_token = None
            self._awaiting_join -= 1
        return token

    def _count(self, protocols: tuple[GroupProtocol, ...], change: int) -> None:
        for name in {each.name for each in protocols}:
            self._support[name] += change
            if not self._support[name]:
                del self._support[name]

    # ------------------------------------------------------------------ generations

    def elect_leader(self) -> bool:
        """See to it that a member which has joined leads; false if no member has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_token is not None:
            return True
        joined = (each for each in self.members.values() if each.join_token is not None)
        first = next(joined, None)
        if first is None:
            return False
        self.leader_id = first.member_id
        return True

    def select_protocol(self) -> str:
        """The one with most votes of those that all members support; of equals, the first."""
        everybody = len(self.members)
        candidates = frozenset(name for name, count in self._support.items() if count == everybody)
        votes = Counter(each.vote(candidates) for each in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self, now: Moment) -> None:
        """The next generation, of those who are members now."""
        self.generation_id = (self.generation_id + 1) & 0x7FFFFFFF
        self.generation_size = len(self.members)
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, now)
        else:
            self.protocol_name = None
            self.transition(GroupState.EMPTY, now)
        self.note_subscriptions()

    def note_subscriptions(self) -> None:
        """Find out what the members read. Kafka: `computeSubscribedTopics`."""
        if not self.members:
            self.subscribed_topics = frozenset()
            return
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER or self.protocol_name is None:
            return
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return
            topics |= subscribed
        self.subscribed_topics = frozenset(topics)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """All, as the leader sees them."""
        name = str(self.protocol_name)
        return tuple(
            JoinedMember(each.member_id, each.group_instance_id, each.metadata(name))
            for each in self.members.values()
        )

    # ------------------------------------------------------------------ as it is stored and shown

    def to_store(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        """The generation with these assignments, by member id."""
        name = self.protocol_name or ""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            leader=self.leader_id,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                StoredMember(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    each.rebalance_timeout_ms,
                    each.session_timeout_ms,
                    each.metadata(name),
                    assignments.get(each.member_id, b""),
                )
                for each in self.members.values()
            ),
        )

    def restore(self, stored: StoredGroup, members: Iterator[Member]) -> None:
        """Be what is stored, with these members, while loading; offsets stay as they are."""
        self.clear()
        self.generation_id = stored.generation_id
        self.protocol_name = stored.protocol_name
        self.state_timestamp_ms = WallMs(stored.state_timestamp_ms)
        for member in members:
            self.add(member, stored.protocol_type)
        self.protocol_type = stored.protocol_type
        if stored.leader in self.members:
            self.leader_id = stored.leader
        self.generation_size = len(self.members)
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def clear(self) -> None:
        """Be as a group of which nothing is stored but its offsets, while loading or Empty."""
        for member in list(self.members.values()):
            self.remove(member)
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = NO_TIMESTAMP
        self.generation_id = self.generation_size = 0
        self.protocol_type = self.protocol_name = self.leader_id = None
        self.subscribed_topics = frozenset()

    def let_go(self) -> None:
        """The shard is done with it: it keeps nothing in memory but what others know it by."""
        for member in self.members.values():
            member.session.drop()
        for alarm in (*self.pending_join.values(), self.join_alarm, self.sync_alarm):
            if alarm is not None:
                alarm.drop()
        self.pending_join.clear()

    def rebalances(self, now: Moment) -> tuple[Rebalance, ...]:
        """The last ones; in one that runs, `slowest` is as of now. They are not to be changed."""
        rebalance = self.history.current
        if rebalance is not None and rebalance.joining_ms is None:
            rebalance.rebalance_timeout_ms = self.rebalance_timeout_ms
            rebalance.slowest = slowest(rebalance, self.waited(), now)
        return self.history.all()

    def waited(self) -> Iterator[Waited]:
        """Every member, and when it joined again if it has; and who has a member id only."""
        for member in self.members.values():
            has_joined = member.join_token is not None
            yield Waited(member.who, member.joined_again_ms if has_joined else None)
        for member_id in self.pending_join:
            yield Waited(WhoseMember(member_id, "", ""), None, is_expected=True)

    def description(self) -> GroupDescription:
        """For DescribeGroups."""
        is_stable = self.state is GroupState.STABLE
        name = str(self.protocol_name) if is_stable else ""
        return GroupDescription(
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            name,
            tuple(
                DescribedMember(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    each.metadata(name) if is_stable else b"",
                    each.assignment if is_stable else b"",
                )
                for each in self.members.values()
            ),
        )
