"""One member of a classic group. Pure.

Kafka: `ClassicGroupMember`.
"""

from dataclasses import dataclass, field

from cluster.coordinator.groups.history.rebalances import WhoseMember
from cluster.coordinator.groups.requests import GroupProtocol
from cluster.coordinator.shards.alarms import Alarm
from cluster.model.printable import NAME_MAX_CHARACTERS


@dataclass(slots=True, eq=False)
class Member:
    """Owned by its group. Tokens are those of requests that wait; None if none does."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """It has not yet been part of a generation: its JoinGroup may time out."""
    join_token: object | None = None
    sync_token: object | None = None
    joined_again_ms: int = -1
    """When it last joined, by the monotonic clock; -1 if it was loaded."""
    session: Alarm = field(init=False)
    """Its session timeout; of a new member, until its JoinGroup times out."""

    @property
    def is_static(self) -> bool:
        """Whether it has a group.instance.id."""
        return self.group_instance_id is not None

    @property
    def who(self) -> WhoseMember:
        """For a person; what is longer than anybody reads is cut."""
        instance_id = self.group_instance_id
        return WhoseMember(
            self.member_id[:NAME_MAX_CHARACTERS],
            self.client_id[:NAME_MAX_CHARACTERS],
            self.client_host,
            None if instance_id is None else instance_id[:NAME_MAX_CHARACTERS],
        )

    def metadata(self, protocol_name: str) -> bytes:
        """What it says for a protocol; empty if it does not support it."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its protocols that all members support."""
        return next(each.name for each in self.protocols if each.name in candidates)

    def matches(self, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether it brought the same protocols with the same metadata before."""
        return self.protocols == protocols
