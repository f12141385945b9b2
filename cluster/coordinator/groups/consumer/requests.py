"""Requests and replies of the newer consumer protocol (KIP-848), without versions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster.coordinator.groups.shared.topics import Partitions, TopicId
from cluster.coordinator.shards.requests import Request
from cluster.model.error_codes import ErrorCode

JOIN_EPOCH: Final = 0
"""The member joins, or rejoins without partitions."""
LEAVE_EPOCH: Final = -1
"""The member leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""The static member leaves temporarily and keeps its partitions until its session expires."""


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatReply:
    """The reply to a heartbeat."""

    error: ErrorCode
    error_message: str | None = None
    """One line; may contain text of the request."""
    member_id: str | None = None
    """None on errors."""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    """All partitions of the member; None: unchanged."""


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat(Request[ConsumerHeartbeatReply]):
    """ConsumerGroupHeartbeat. None: unchanged since the last heartbeat."""

    group_id: str
    member_id: str
    """Version 1 and later: chosen by the member. Version 0: empty in the first heartbeat."""
    member_epoch: int
    client_id: str
    client_host: str
    """As Kafka shows it: `/127.0.0.1`."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """-1: unchanged."""
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    """Version 1 and later. Empty: the member drops its expression."""
    server_assignor: str | None = None
    owned_partitions: Partitions | None = None
    """May contain empty sets; the partitions of a topic that occurs twice are merged."""
    requires_member_id: bool = True
    """Version 1 and later: the first heartbeat must have a member id."""
    may_know: Callable[[str], bool] | None = field(default=None, compare=False, repr=False)
    """Whether the client may know of a topic that its expression matches; None: of any topic."""

    @property
    def subscription_size(self) -> int:
        """The number of characters in the subscription."""
        return sum(map(len, self.subscribed_topic_names or ())) + len(
            self.subscribed_topic_regex or ""
        )


class ConsumerTimings(NamedTuple):
    """The timings of one group, by the settings or by the group's own configs."""

    session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms; the group's config is consumer.session.timeout.ms"""
    heartbeat_interval_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms; the group's config is consumer.heartbeat.interval.ms"""


class AssignedTopic(NamedTuple):
    """Partitions of one topic in ascending order."""

    topic_id: TopicId
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    """A member as ConsumerGroupDescribe describes it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    """Sorted."""
    subscribed_topic_regex: str | None
    """None if the member subscribes by names."""
    assignment: tuple[AssignedTopic, ...]
    target_assignment: tuple[AssignedTopic, ...]
    is_classic: bool = False
    """The member uses the classic protocol. On the wire `member_type` is 0 then, else 1."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group as ConsumerGroupDescribe describes it."""

    group_id: str
    state: str
    """`Empty`, `Assigning`, `Reconciling`, `Stable`"""
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...] = field(default=())
