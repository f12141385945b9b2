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
    """Owned by its group. A token belongs to a request that waits; None: no request waits."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """The member has not been part of a generation yet: its JoinGroup may time out."""
    join_token: object | None = None
    sync_token: object | None = None
    joined_again_ms: int = -1
    """Monotonic time of the last JoinGroup; -1 if the member was loaded."""
    session: Alarm = field(init=False)
    """The session timeout; for a new member, the timeout of its JoinGroup."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def who(self) -> WhoseMember:
        """The member's names, cut to a length that a person reads."""
        instance_id = self.group_instance_id
        return WhoseMember(
            self.member_id[:NAME_MAX_CHARACTERS],
            self.client_id[:NAME_MAX_CHARACTERS],
            self.client_host,
            None if instance_id is None else instance_id[:NAME_MAX_CHARACTERS],
        )

    def metadata(self, protocol_name: str) -> bytes:
        """The metadata for a protocol; empty if the member does not support it."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first protocol of the member that all members support."""
        return next(each.name for each in self.protocols if each.name in candidates)

    def matches(self, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether the member sent the same protocols and metadata before."""
        return self.protocols == protocols
