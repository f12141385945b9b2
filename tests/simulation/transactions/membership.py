"""The place of a process in a group, by the classic protocol or the newer one (KIP-848).

A script sends heartbeats between its transactions only. So a long transaction costs the process its
place, as a process that was stopped for a while would lose it, and it goes on without knowing.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

from cluster.brokers.handlers import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    sync_group,
)
from cluster.brokers.handlers.request import Handler
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.messages import (
    ConsumerGroupHeartbeatOwnedTopic,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.simulation.transactions.client_process import (
    BACKOFF_MS,
    TIMEOUT_MS,
    ClientProcess,
    Pause,
    Script,
)
from tests.simulation.transactions.producing import NO_MEMBER, Member

HEARTBEAT_MS = 300
SESSION_MS = 2_500
REBALANCE_MS = 2_500
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
}
"""Settings of brokers."""
_JOIN_TIMEOUT_MS = REBALANCE_MS + 3_000
_PROTOCOL_TYPE = "simulated"
_PROTOCOL = "by turns"
_SESSION = timedelta(milliseconds=SESSION_MS)
_REBALANCE = timedelta(milliseconds=REBALANCE_MS)


class Membership(Protocol):
    """What a copier needs of its group."""

    member: Member
    partitions: list[TopicPartition]
    """Its own, since it has joined."""

    def join(self, is_stopping: Callable[[], bool]) -> Script[None]:
        """Become a member with some partitions, or stop."""
        ...

    def beat(self) -> Script[bool]:
        """A heartbeat, if it is time; False if it has to join again."""
        ...


class _OneGroup:
    """The requests of one process to the coordinator of one group."""

    def __init__(
        self, process: ClientProcess, group: str, sources: Sequence[TopicPartition]
    ) -> None:
        self._process = process
        self._group = group
        self._sources = sources
        self.member = NO_MEMBER
        self.partitions: list[TopicPartition] = []
        self._beat_ms = 0

    def _ask(
        self, handler: Handler[Any], version: int, request: Any, timeout_ms: int = TIMEOUT_MS
    ) -> Script[Any]:
        topic = CONSUMER_OFFSETS_TOPIC
        return (
            yield from self._process.ask_coordinator(
                topic, self._group, handler, version, request, timeout_ms=timeout_ms
            )
        )

    def _is_time(self) -> bool:
        now_ms = self._process.cluster.world.now_ms
        if now_ms - self._beat_ms < HEARTBEAT_MS:
            return False
        self._beat_ms = now_ms
        return True


class ClassicMembership(_OneGroup):
    """JoinGroup, SyncGroup and Heartbeat."""

    def join(self, is_stopping: Callable[[], bool]) -> Script[None]:
        """Become a member with some partitions, or stop."""
        while not is_stopping():
            joined = yield from self._join()
            if joined is not None and (yield from self._sync(joined)):
                return
            yield Pause(BACKOFF_MS)

    def _join(self) -> Script[JoinGroupResponse | None]:
        member_id = self.member.member_id
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout=_SESSION,
            rebalance_timeout=_REBALANCE,
            member_id=member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=(
                JoinGroupRequestProtocol(name=_PROTOCOL, metadata=self._process.name.encode()),
            ),
        )
        joined = yield from self._ask(join_group.HANDLER, 7, request, _JOIN_TIMEOUT_MS)
        if joined is None:
            return None
        if joined.error_code is ErrorCode.member_id_required:
            self.member = Member(member_id=joined.member_id)
        elif joined.error_code is ErrorCode.unknown_member_id:
            self.member = NO_MEMBER
        elif joined.error_code is ErrorCode.none:
            self.member = Member(joined.generation_id, joined.member_id)
            return joined
        return None

    def _sync(self, joined: JoinGroupResponse) -> Script[bool]:
        members = sorted(joined.members, key=lambda each: each.metadata)  # ids differ in each run
        shares = _shares([each.member_id for each in members], self._sources)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(share))
                for member_id, share in shares.items()
            ),
        )
        synced = yield from self._ask(sync_group.HANDLER, 4, request)
        if synced is None or synced.error_code is not ErrorCode.none:
            return False
        self.partitions = [
            each for each in self._sources if str(each).encode() in synced.assignment
        ]
        return True

    def beat(self) -> Script[bool]:
        """A heartbeat, if it is time; False if it has to join again."""
        if not self._is_time():
            return True
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self.member.generation,
            member_id=self.member.member_id,
        )
        beaten = yield from self._ask(heartbeat.HANDLER, 4, request)
        if beaten is None:
            return True
        if beaten.error_code is ErrorCode.unknown_member_id:
            self.member = NO_MEMBER
        return beaten.error_code not in (
            ErrorCode.unknown_member_id,
            ErrorCode.illegal_generation,
            ErrorCode.rebalance_in_progress,
        )


def _shares(
    members: Sequence[str], sources: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """What the leader, which alone is told the members, gives to each."""
    shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    for number, source in enumerate(sources if members else ()):
        list(shares.values())[number % len(members)].append(source)
    return shares


def _encoded(share: Sequence[TopicPartition]) -> bytes:
    return ",".join(map(str, share)).encode()


class NewerMembership(_OneGroup):
    """ConsumerGroupHeartbeat."""

    def __init__(
        self, process: ClientProcess, group: str, sources: Sequence[TopicPartition]
    ) -> None:
        super().__init__(process, group, sources)
        self._leave()

    def _leave(self) -> None:
        self.member = Member(0, f"{self._process.name}.{self._process.random.randrange(1 << 32)}")
        self.partitions = []
        self._is_known = False
        """Whether the coordinator has given it partitions, or none."""

    def join(self, is_stopping: Callable[[], bool]) -> Script[None]:
        """Become a member with some partitions, or stop."""
        while not is_stopping():
            if (yield from self._beat()) and self._is_known:
                return
            yield Pause(BACKOFF_MS)

    def beat(self) -> Script[bool]:
        """A heartbeat, if it is time; False if its partitions change."""
        if not self._is_time():
            return True
        return (yield from self._beat())

    def _beat(self) -> Script[bool]:
        cluster, topics = self._process.cluster, sorted({each.topic for each in self._sources})
        generation, member_id = self.member
        owned = tuple(
            ConsumerGroupHeartbeatOwnedTopic(
                topic_id=cluster.topic_id(topic),
                partitions=tuple(each.partition for each in self.partitions if each.topic == topic),
            )
            for topic in topics
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=member_id,
            member_epoch=generation,
            rebalance_timeout=_REBALANCE,
            subscribed_topic_names=tuple(topics),
            topic_partitions=tuple(each for each in owned if each.partitions),
        )
        beaten = yield from self._ask(consumer_group_heartbeat.HANDLER, 1, request)
        if beaten is None:
            return True
        if beaten.error_code in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
            self._leave()
            return False
        if beaten.error_code is not ErrorCode.none:
            return True
        self.member = Member(beaten.member_epoch, member_id)
        if beaten.assignment is None:
            return True
        given = {
            (topic.topic_id, number)
            for topic in beaten.assignment.topic_partitions
            for number in topic.partitions
        }
        before = self.partitions
        self.partitions = [
            each
            for each in self._sources
            if (cluster.topic_id(each.topic), each.partition) in given
        ]
        self._is_known = True
        return self.partitions == before
