"""A group of the newer consumer protocol (KIP-848), whose members crash, leave and come back.

A member reads one record of a partition after the other, and commits each before it goes on; the
records themselves do not matter here.
"""

from collections.abc import Callable
from uuid import UUID

from cluster.brokers.coordinators.led_shard import LedShard
from cluster.coordinator.groups.consumer.requests import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from cluster.coordinator.groups.requests import (
    CommitOffsets,
    CommitReply,
    FetchOffsets,
    OffsetToCommit,
    TopicPartitions,
)
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.groups.shared.topics import Partitions
from cluster.coordinator.groups.views.queries import DescribeConsumerGroup
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.committer import PARTITIONS

READ = "orders"
"""The topic whose offsets are looked after; it is never deleted."""
HEARTBEAT_MS = 300
SESSION_MS = 3_000
NEWER_GROUPS = {
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.regex.refresh.interval.ms": "10000",
}
"""Settings of brokers."""
ANSWER_MS = 1_000
"""Longer than it takes to answer, unless the answer is lost."""
REJOIN = frozenset(
    {
        ErrorCode.fenced_member_epoch,
        ErrorCode.unknown_member_id,
        ErrorCode.group_id_not_found,
        ErrorCode.unreleased_instance_id,
    }
)


class Group:
    """What is promised to the members of one group together."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.kept_in = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_of(name, PARTITIONS))
        self.acknowledged: dict[int, int] = {}
        """The highest acknowledged offset of each partition of `READ`."""
        self.consumers: list[Consumer] = []

    def described(self) -> ConsumerGroupDescription | None:
        """The group as its coordinator describes it; None without one, or while it loads."""
        state = self.cluster.registered_state(self.kept_in)
        if not state or state.leader not in self.cluster.brokers:
            return None
        groups = self.cluster.brokers[state.leader].core.groups.coordinator
        try:
            return groups.find(self.name).ask(DescribeConsumerGroup(self.name))
        except Refused:
            return None

    def check(self) -> None:
        """A partition is one member's at a time."""
        found = self.described()
        held = [
            (topic.topic_id, number)
            for member in (found.members if found else ())
            for topic in member.assignment
            for number in topic.partitions
        ]
        assert len(held) == len(set(held)), f"two members have one partition: {found}"


class Consumer:
    """One member; requests over one connection at a time arrive in their order."""

    def __init__(
        self,
        group: Group,
        member_id: str,
        *,
        topics: tuple[str, ...] = (),
        expression: str = "",
        instance: str | None = None,
    ) -> None:
        self._group = group
        self._cluster = group.cluster
        self._topics = topics
        self._expression = expression
        self.instance = instance
        self._lives = 0
        self._name = member_id
        self.is_running = False
        self._last_arrival_ms = 0
        self._begin()

    def _begin(self) -> None:
        """A new process."""
        self._lives += 1
        self.member_id = f"{self._name}-{self._lives}"
        self.is_running = True
        self._forget()

    def _forget(self) -> None:
        self.epoch = 0
        self.owned: Partitions = {}
        self._says_all = True
        self._positions: dict[int, int] = {}
        """What was committed last, of each partition that it reads."""
        self._beat_sent_ms: int | None = None
        self._beat_answered_ms = -HEARTBEAT_MS
        self._commit_sent_ms: int | None = None

    # -- what a client does ------------------------------------------------------------------------

    def step(self) -> None:
        """Send what is due."""
        if not self.is_running:
            return
        now_ms = self._cluster.world.now_ms
        if self._beat_sent_ms is not None and now_ms - self._beat_sent_ms >= ANSWER_MS:
            self._beat_sent_ms, self._says_all = None, True
        if self._beat_sent_ms is None and now_ms - self._beat_answered_ms >= HEARTBEAT_MS:
            self._beat()
        if self._commit_sent_ms is not None and now_ms - self._commit_sent_ms >= ANSWER_MS:
            self._commit_sent_ms = None
        if self._commit_sent_ms is None and self.epoch > 0:
            self._read_on()

    def crash(self) -> None:
        """It is gone; another process takes its place when `restart` is called."""
        self.is_running = False

    def leave(self) -> None:
        """It says that it goes, if that arrives."""
        if self.is_running:
            epoch = LEAVE_EPOCH if self.instance is None else STATIC_LEAVE_EPOCH
            request = self._heartbeat(epoch)
            self._send(lambda group: group.submit(request, lambda _: None))
            self.is_running = False

    def restart(self) -> None:
        """Begin again, with another member id."""
        if not self.is_running:
            self._begin()

    def numbers(self) -> set[int]:
        """The partitions of `READ` that it has."""
        return set(self.owned.get(self._topic_id(), ()))

    def _topic_id(self) -> UUID:
        return self._cluster.topic_id(READ)

    def _heartbeat(self, epoch: int) -> ConsumerHeartbeat:
        says_all = self._says_all or epoch == 0
        return ConsumerHeartbeat(
            group_id=self._group.name,
            member_id=self.member_id,
            member_epoch=epoch,
            client_id=self._name,
            client_host="/sim",
            instance_id=self.instance,
            rebalance_timeout_ms=60_000 if says_all else -1,
            subscribed_topic_names=self._topics if says_all else None,
            subscribed_topic_regex=self._expression if says_all else None,
            owned_partitions={} if epoch == 0 else self.owned,
        )

    def _beat(self) -> None:
        request = self._heartbeat(self.epoch)
        sent_ms = self._cluster.world.now_ms
        life = self._lives

        def on_reply(reply: ConsumerHeartbeatReply) -> None:
            assert not answered, "a heartbeat was answered twice"
            answered.append(reply)
            if self.is_running and life == self._lives and self._beat_sent_ms == sent_ms:
                self._beat_sent_ms = None
                self._take(reply)

        answered: list[ConsumerHeartbeatReply] = []
        self._beat_sent_ms = sent_ms
        self._send(lambda group: group.submit(request, on_reply))

    def _take(self, reply: ConsumerHeartbeatReply) -> None:
        self._beat_answered_ms = self._cluster.world.now_ms
        if reply.error in REJOIN:
            self._forget()
        elif reply.error is not ErrorCode.none:
            self._says_all = True
        else:
            assert reply.member_epoch >= self.epoch, "an epoch fell"
            self.epoch = reply.member_epoch
            self._says_all = False
            if reply.assignment is not None and reply.assignment != self.owned:
                self.owned = reply.assignment
                self._beat_answered_ms -= HEARTBEAT_MS  # says at once what it has
                for number in self._positions.keys() - self.numbers():
                    del self._positions[number]

    def _read_on(self) -> None:
        """Ask where to begin with a partition that is new here, or commit the next offset."""
        numbers = sorted(self.numbers())
        if not numbers:
            return
        number = self._cluster.world.random.choice(numbers)
        self._commit_sent_ms = self._cluster.world.now_ms
        if number in self._positions:
            self._commit(number, self._positions[number] + 1)
        else:
            self._fetch(number)

    def _fetch(self, number: int) -> None:
        group, life, epoch = self._group, self._lives, self.epoch
        promised = group.acknowledged.get(number, -1)
        asked = FetchOffsets(
            group.name,
            (TopicPartitions(READ, (number,)),),
            member_id=self.member_id,
            member_epoch=epoch,
        )

        def ask(coordinator: LedShard[GroupShard]) -> None:
            reply = coordinator.ask(asked)
            if life != self._lives or not self.is_running or number not in self.numbers():
                return
            self._commit_sent_ms = None
            if reply.error is ErrorCode.none:
                (found,) = reply.offsets
                assert found.offset >= promised, f"{found} is stored, {promised} was promised"
                self._positions[number] = found.offset

        self._send(ask)

    def _commit(self, number: int, offset: int) -> None:
        group, life = self._group, self._lives
        request = CommitOffsets(
            group.name,
            (OffsetToCommit(READ, number, offset),),
            generation_id=self.epoch,
            member_id=self.member_id,
        )

        def on_reply(reply: CommitReply) -> None:
            (outcome,) = reply.partitions
            if outcome.error is ErrorCode.none:
                group.acknowledged[number] = max(group.acknowledged.get(number, -1), offset)
            if life == self._lives:
                self._commit_sent_ms = None
                if outcome.error is ErrorCode.none and number in self._positions:
                    self._positions[number] = max(self._positions[number], offset)

        self._send(lambda coordinator: coordinator.submit(request, on_reply))

    def _send(self, ask: Callable[[LedShard[GroupShard]], None]) -> None:
        """Lost where nobody coordinates, or another broker does."""
        cluster, group = self._cluster, self._group
        target = cluster.believed_leader(group.kept_in)
        if target is None:
            return
        world = cluster.world
        self._last_arrival_ms = max(self._last_arrival_ms, world.now_ms + world.delay_ms())
        broker = cluster.brokers[target]

        def arrive() -> None:
            try:
                coordinator = broker.core.groups.coordinator.find(group.name)
            except Refused:
                return
            ask(coordinator)

        world.at(self._last_arrival_ms, lambda: broker.node.run(arrive))


class Consumers:
    """Four members of one group, one of them static, one by an expression."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self._cluster = cluster
        self.group = Group(cluster, name)
        self.all = [
            Consumer(self.group, "a", topics=(READ, "bills")),
            Consumer(self.group, "b", topics=(READ,)),
            Consumer(self.group, "c", expression=f"{READ}|more"),
            Consumer(self.group, "d", topics=(READ, "more"), instance="d"),
        ]

    def step(self) -> None:
        """Members that run go on; what must hold always is checked."""
        for consumer in self.all:
            consumer.step()
        self.group.check()

    def any(self) -> Consumer:
        """One of them."""
        return self._cluster.random.choice(self.all)

    def at_the_end(self) -> None:
        """All come back, share the topic, and nothing that was promised is forgotten."""
        for consumer in self.all:
            consumer.restart()

        def is_shared() -> bool:
            held = [number for consumer in self.all for number in consumer.numbers()]
            return sorted(held) == [0, 1] and self._is_stable()

        self._go_on_until(is_shared, "the topic is not shared")
        before = dict(self.group.acknowledged)
        self._go_on_until(
            lambda: all(self.group.acknowledged.get(n, -1) > before.get(n, -1) for n in (0, 1)),
            "nothing is committed any more",
        )

    def _is_stable(self) -> bool:
        found = self.group.described()
        return found is not None and found.state == "Stable" and len(found.members) == len(self.all)

    def _go_on_until(self, condition: Callable[[], bool], otherwise: str) -> None:
        world = self._cluster.world
        for _ in range(400):
            if condition():
                return
            self.step()
            world.run_for(100)
        held = [each.numbers() for each in self.all]
        raise AssertionError(f"{otherwise}: {self.group.described()}, {held}")
