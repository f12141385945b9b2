"""The members of a classic group: ids, leader, protocol votes, who waits to join. Pure."""

from collections import Counter
from collections.abc import Mapping

from cluster.coordinator.groups.requests import GroupProtocol
from cluster.coordinator.groups.state.classic_member import Member
from cluster.model.clocks import Moment
from cluster.model.errors import ensure


class Roster:
    """Invariants: if there are members one of them leads and there is a protocol type; an instance
    id belongs to one member."""

    __slots__ = (
        "_members",
        "_static_ids",
        "_support",
        "joining_count",
        "leader_id",
        "pending_sync",
        "protocol_type",
    )

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        """How many members support a protocol."""
        self.leader_id: str | None = None
        self.protocol_type: str | None = None
        self.joining_count = 0
        """Members whose JoinGroup waits."""
        self.pending_sync: set[str] = set()
        """Members of the generation that have not asked for their assignment."""

    @property
    def members(self) -> Mapping[str, Member]:
        """A view by member id."""
        return self._members

    @property
    def static_members(self) -> Mapping[str, str]:
        """A view of the member ids by instance id."""
        return self._static_ids

    # ------------------------------------------------------------------ changes

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first one leads, and determines the protocol type."""
        if not self._members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._members[member.member_id] = member
        if member.group_instance_id is not None:
            self._static_ids[member.group_instance_id] = member.member_id
        self._count(member.protocols, 1)
        if member.join_token is not None:
            self.joining_count += 1

    def remove(self, member: Member) -> None:
        """Remove a member none of whose requests waits."""
        ensure(member.join_token is None and member.sync_token is None, "a token is lost")
        del self._members[member.member_id]
        instance_id = member.group_instance_id
        if instance_id is not None and self._static_ids.get(instance_id) == member.member_id:
            del self._static_ids[instance_id]
        self._count(member.protocols, -1)
        self.pending_sync.discard(member.member_id)
        member.session.drop()
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._members), None)

    def clear(self) -> None:
        """Remove all members, and forget the protocol type."""
        for member in list(self._members.values()):
            self.remove(member)
        self.protocol_type = self.leader_id = None

    def rename(self, member: Member, new_id: str) -> None:
        """Give a static member another member id."""
        ensure(member.group_instance_id is not None, "a dynamic member changed its id")
        old_id = member.member_id
        del self._members[old_id]
        member.member_id = new_id
        self._members[new_id] = member
        self._static_ids[str(member.group_instance_id)] = new_id
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
        """Replace what a member sent when it joined before."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def wait_to_join(self, member: Member, token: object, now: Moment) -> object | None:
        """Let a member wait for the next generation. Returns the token of an earlier JoinGroup of
        the member that waited."""
        before = self.take_join_token(member)
        member.join_token = token
        member.joined_again_ms = now.monotonic_ms
        self.joining_count += 1
        return before

    def take_join_token(self, member: Member) -> object | None:
        """Remove and return the token of the member's JoinGroup that waits, if there is one."""
        token = member.join_token
        if token is not None:
            member.join_token = None
            self.joining_count -= 1
        return token

    def _count(self, protocols: tuple[GroupProtocol, ...], change: int) -> None:
        for name in {each.name for each in protocols}:
            self._support[name] += change
            if not self._support[name]:
                del self._support[name]

    # ------------------------------------------------------------------ queries

    def not_joined(self) -> list[Member]:
        """Members that have not rejoined."""
        return [each for each in self._members.values() if each.join_token is None]

    def supports(self, protocol_type: str, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether a member with these protocols may join: all others support one of them."""
        if not self._members:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self._members)
        return protocol_type == self.protocol_type and any(
            self._support[each.name] == everybody for each in protocols
        )

    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of a member."""
        return max((each.rebalance_timeout_ms for each in self._members.values()), default=0)

    # ------------------------------------------------------------------ elections

    def elect_leader(self) -> bool:
        """Keep the leader if it has rejoined, else elect a member that has; false if none has."""
        if self.leader_id is None:
            return False
        if self._members[self.leader_id].join_token is not None:
            return True
        joined = (each for each in self._members.values() if each.join_token is not None)
        first = next(joined, None)
        if first is None:
            return False
        self.leader_id = first.member_id
        return True

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all members support; the first of a tie."""
        everybody = len(self._members)
        candidates = frozenset(name for name, count in self._support.items() if count == everybody)
        votes = Counter(each.vote(candidates) for each in self._members.values())
        return votes.most_common(1)[0][0]
