"""One shard of the group coordinator, some topics, and members of the newer consumer protocol."""

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from cluster.coordinator.groups.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from cluster.coordinator.groups.requests import TopicsChanged
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.topics import Partitions, TopicId, TopicShape
from cluster.coordinator.groups.views.queries import DescribeConsumerGroup
from cluster.model.error_codes import ErrorCode
from tests.support.group_stage import GROUP, REBALANCE_MS, GroupStage

SESSION_MS = 45_000
Numbers = Mapping[str, Collection[int]]
"""Partitions by the topic's name."""


def id_of(name: str) -> TopicId:
    """The id of a topic, unless it was made again."""
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


class FakeTopics:
    """Topics that a test makes and deletes."""

    def __init__(self, **counts: int) -> None:
        self.shapes = {name: TopicShape(id_of(name), count) for name, count in counts.items()}

    def shape(self, name: str) -> TopicShape | None:
        return self.shapes.get(name)

    def name(self, topic_id: TopicId) -> str | None:
        return next((name for name, each in self.shapes.items() if each.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return tuple(self.shapes)

    def numbers(self, partitions: Partitions) -> dict[str, set[int]]:
        """Partition numbers by topic name; by a part of the id where the topic is deleted."""
        return {
            self.name(topic_id) or f"gone-{str(topic_id)[:4]}": set(numbers)
            for topic_id, numbers in partitions.items()
        }


@dataclass
class Consumer:
    """A member as its client sees itself: it takes what it is told, and gives up at once."""

    stage: "ConsumerStage"
    member_id: str
    topics: tuple[str, ...] | None = ("orders",)
    regex: str | None = None
    instance: str | None = None
    assignor: str | None = None
    group: str = GROUP
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    heard: list[ConsumerHeartbeatReply] = field(default_factory=list)
    """Replies, oldest first."""

    def ask(self, *, full: bool = False, epoch: int | None = None) -> int:
        """Send a heartbeat as a client would; the token."""
        used = self.epoch if epoch is None else epoch
        says_all = full or used == 0
        return self.stage.beat(
            self.member_id,
            used,
            group=self.group,
            topics=self.topics if says_all else None,
            regex=self.regex if says_all else None,
            instance=self.instance,
            assignor=self.assignor if says_all else None,
            rebalance_ms=REBALANCE_MS if says_all else -1,
            owned={} if used == 0 else self.owned,
        )

    def hear(self, token: int) -> ConsumerHeartbeatReply:
        """Do what the reply says."""
        reply = self.stage.beaten(token)
        self.heard.append(reply)
        if reply.error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
            self.epoch, self.owned = 0, {}
        elif reply.error is ErrorCode.none:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = reply.assignment
        return reply

    def beat(self, *, full: bool = False) -> ConsumerHeartbeatReply:
        """Send a heartbeat and take its answer."""
        return self.hear(self.ask(full=full))

    def leave(self, *, for_a_while: bool = False) -> ConsumerHeartbeatReply:
        token = self.ask(epoch=-2 if for_a_while else -1)
        self.epoch, self.owned = 0, {}
        return self.stage.beaten(token)

    @property
    def numbers(self) -> dict[str, set[int]]:
        """What it has, by topic names."""
        return self.stage.topics.numbers(self.owned)


class ConsumerStage(GroupStage):
    """A GroupStage with topics."""

    def __init__(
        self, options: GroupOptions | None = None, topics: FakeTopics | None = None
    ) -> None:
        self.topics = topics or FakeTopics(orders=4, bills=2)
        super().__init__(options, self.topics)

    def loaded(self, records: Iterable[tuple[bytes | None, bytes | None]] = ()) -> "ConsumerStage":
        super().loaded(records)
        return self

    def reloaded(self) -> "ConsumerStage":
        successor = ConsumerStage(self.options, self.topics)
        successor.now_ms = self.now_ms
        return successor.loaded(self.log)

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = GROUP,
        client: str = "client",
        topics: Collection[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        owned: Partitions | None = None,
        knows_its_id: bool = True,
    ) -> int:
        request = ConsumerHeartbeat(
            group,
            member_id,
            epoch,
            client,
            "/127.0.0.1",
            instance,
            rack,
            rebalance_ms,
            None if topics is None else tuple(topics),
            regex,
            assignor,
            owned,
            knows_its_id,
        )
        return self.submit(request)

    def beaten(self, token: int) -> ConsumerHeartbeatReply:
        reply = self.answers[token]
        assert isinstance(reply, ConsumerHeartbeatReply)
        return reply

    def consumer(self, member_id: str, *topics: str, **others: object) -> Consumer:
        """A member that has joined; of `orders` unless told otherwise."""
        member = self.stranger(member_id, *topics, **others)
        assert member.beat().error is ErrorCode.none
        return member

    def stranger(self, member_id: str, *topics: str, **others: object) -> Consumer:
        """A member that has not joined."""
        return Consumer(self, member_id, topics or ("orders",), **others)  # type: ignore[arg-type]

    def settle_down(self, *members: Consumer, rounds: int = 6) -> None:
        """Everybody sends heartbeats until nothing changes any more."""
        for _ in range(rounds):
            for member in members:
                member.beat()

    def change_topics(self, **counts: int | None) -> None:
        """Topics have so many partitions from now on, or are no more."""
        for name, count in counts.items():
            if count is None:
                self.topics.shapes.pop(name, None)
            else:
                self.topics.shapes[name] = TopicShape(id_of(name), count)
        self.submit(TopicsChanged(list(counts)))

    def described_consumers(self, group: str = GROUP) -> ConsumerGroupDescription | None:
        return self.ask(DescribeConsumerGroup(group))

    def described(self, group: str = GROUP) -> ConsumerGroupDescription:
        found = self.described_consumers(group)
        assert found is not None
        return found
