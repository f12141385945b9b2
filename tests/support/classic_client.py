"""A consumer of the classic protocol as its client behaves: a stage's member in every step."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.coordinator.groups.bridge.embedded_protocol import (
    assignment_bytes,
    read_assignment,
    read_subscription,
)
from cluster.coordinator.groups.requests import GroupProtocol, JoinGroupReply, SyncGroupReply
from cluster.model.error_codes import ErrorCode
from tests.support.consumer_stage import ConsumerStage
from tests.support.group_stage import REBALANCE_MS, SESSION_MS

Owned = Mapping[str, frozenset[int]]
_LOST = (
    ErrorCode.unknown_member_id,
    ErrorCode.illegal_generation,
    ErrorCode.fenced_instance_id,
)


def subscription(topics: tuple[str, ...], owned: Owned, version: int = 1) -> bytes:
    """The metadata of a consumer that has these partitions, which are left out before version 1."""
    texts = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    head = struct.pack(">hi", version, len(topics)) + texts + struct.pack(">i", -1)
    if version == 0:
        return head
    return head + assignment_bytes(owned, version)[2:-4]


@dataclass
class ClassicClient:
    """Each `step` does what comes next: join, ask for the assignment, or send a heartbeat."""

    stage: ConsumerStage
    topics: tuple[str, ...] = ("orders",)
    cooperative: bool = False
    instance: str | None = None
    protocol: str = "range"
    user_data: bytes = b""
    """What it puts into assignments as the leader."""
    member_id: str = ""
    generation: int = -1
    owned: Owned = field(default_factory=dict)
    """What it reads at present."""
    has_to_join: bool = True
    waits_for_join: int | None = None
    waits_for_sync: int | None = None
    losses: int = 0
    """How often it was told that it is not a member any more."""
    heard: list[ErrorCode] = field(default_factory=list)

    @property
    def numbers(self) -> dict[str, set[int]]:
        """What it reads, as `Consumer.numbers`."""
        return {topic: set(numbers) for topic, numbers in self.owned.items()}

    def step(self) -> None:
        if self.waits_for_join is not None:
            self._hear_join()
        elif self.waits_for_sync is not None:
            self._hear_sync()
        elif self.has_to_join:
            self._join()
        else:
            self._heartbeat()

    def leave(self) -> None:
        self.stage.leave(self.member_id)
        self._lose()
        self.losses -= 1

    def _join(self) -> None:
        if not self.cooperative:
            self.owned = {}  # it stops reading before it joins
        self.waits_for_join = self.stage.join(
            self.member_id,
            instance=self.instance,
            offers=(GroupProtocol(self.protocol, subscription(self.topics, self.owned)),),
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        self._hear_join()

    def _hear_join(self) -> None:
        reply = self.stage.answers.get(self.waits_for_join)
        if reply is None:
            return
        assert isinstance(reply, JoinGroupReply)
        self.waits_for_join = None
        self.heard.append(reply.error)
        if reply.error is ErrorCode.member_id_required:
            self.member_id = reply.member_id
        elif reply.error in _LOST:
            self._lose(reply.error)
        elif reply.error is ErrorCode.none:
            self.member_id, self.generation = reply.member_id, reply.generation_id
            self.has_to_join = False
            assignments = self._assignments(reply) if reply.leader == self.member_id else None
            self.waits_for_sync = self.stage.sync(
                self.member_id,
                self.generation,
                assignments,
                instance=self.instance,
                protocol_type="consumer",
                protocol_name=self.protocol,
            )
            self._hear_sync()

    def _assignments(self, reply: JoinGroupReply) -> dict[str, bytes]:
        """Everybody's part, by turns; cooperative: nothing that somebody else still has."""
        said = {each.member_id: read_subscription(each.metadata) for each in reply.members}
        parts: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in said}
        turn = 0
        for topic, shape in sorted(self.stage.topics.shapes.items()):
            readers = sorted(each for each in said if topic in said[each].topics)
            for number in range(shape.partition_count if readers else 0):
                reader = readers[turn % len(readers)]
                turn += 1
                owners = [each for each in said if number in said[each].owned.get(topic, ())]
                if not self.cooperative or set(owners) <= {reader}:
                    parts[reader].setdefault(topic, set()).add(number)
        return {
            member_id: self._with_user_data(
                assignment_bytes({topic: frozenset(each) for topic, each in part.items()}, 1)
            )
            for member_id, part in parts.items()
        }

    def _with_user_data(self, content: bytes) -> bytes:
        if not self.user_data:
            return content
        return content[:-4] + struct.pack(">i", len(self.user_data)) + self.user_data

    def _hear_sync(self) -> None:
        reply = self.stage.answers.get(self.waits_for_sync)
        if reply is None:
            return
        assert isinstance(reply, SyncGroupReply)
        self.waits_for_sync = None
        self.heard.append(reply.error)
        if reply.error in _LOST:
            self._lose(reply.error)
        elif reply.error is not ErrorCode.none:
            self.has_to_join = True
        else:
            assigned = read_assignment(reply.assignment).partitions
            # a cooperative member that has to give something up does, and joins again
            self.has_to_join = self.cooperative and any(
                numbers - assigned.get(topic, frozenset()) for topic, numbers in self.owned.items()
            )
            self.owned = assigned

    def _heartbeat(self) -> None:
        error = self.stage.heartbeat(self.member_id, self.generation, self.instance)
        self.heard.append(error)
        if error in _LOST:
            self._lose(error)
        elif error is not ErrorCode.none:
            self.has_to_join = True

    def _lose(self, error: ErrorCode = ErrorCode.unknown_member_id) -> None:
        self.losses += 1
        if error is not ErrorCode.illegal_generation:  # with which it may still join again
            self.member_id = ""
        self.generation, self.owned = -1, {}
        self.has_to_join = True
