"""Drivers of the controller on one loop, with a fake registry and fake links."""

from random import Random
from typing import Any

from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.controller.leader_returns import ReturnOptions
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.metrics.events import EventLog
from cluster.model.clocks import WallMs
from cluster.model.cluster import BrokerRegistration
from cluster.model.ids import BrokerEpoch, BrokerId, PartitionEpoch, TopicPartition
from cluster.model.plan import Outcome
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import AlterPartition, ClusterUpdate, PartitionAltered
from cluster.runtime.loop import EventLoop
from tests.support.cluster_states import a_broker
from tests.support.fake_clock import FakeClock
from tests.support.fake_control_link import FakeControlLink
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of

ORDERS_0 = TopicPartition("orders", 0)
WALL_MS = WallMs(1_700_000_000_000)


class Member:
    """One broker's driver."""

    def __init__(self, stage: "Stage", number: int) -> None:
        self.id = BrokerId(number)
        self.session = FakeSession(stage.tree, stage.loop.call_from_thread)
        self.link = FakeControlLink()
        self.known_brokers: dict[BrokerId, BrokerRegistration] = {}
        """By its metadata cache."""
        self.events = EventLog()
        self.driver = ControllerDriver(
            self.id,
            self.session,  # type: ignore[arg-type]  # stands in for it
            self.link,  # type: ignore[arg-type]
            stage.loop,
            stage.clock,
            TopicRules(1, 1, lambda configs: None),
            lambda configs: configs.get("unclean") == "true" or stage.is_unclean,
            Random(number),
            stage.returns,
            lambda: self.known_brokers,
            self.events,
            lambda: stage.may_delete_topics,
        )
        self.requests = ControllerRequests(self.driver)
        self.register()

    def register(self) -> None:
        """Register like a broker that starts."""
        self.epoch = self.session.store.brokers.register(a_broker(self.id), WALL_MS)

    @property
    def controller_epoch(self) -> int | None:
        controller = self.driver.controller
        return None if controller is None else controller.epoch


class Stage:
    """Brokers on one loop, one registry."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.tree = FakeTree()
        store_of(FakeClient(self.tree)).brokers.prepare()
        self.members: list[Member] = []
        self.is_unclean = False
        self.may_delete_topics = True
        self.returns = ReturnOptions()
        """Of members that are made from now on: nothing returns by itself."""

    def member(self, number: int) -> Member:
        member = Member(self, number)
        self.members.append(member)
        return member

    def settle(self) -> None:
        """Run registry and loop until neither has anything left to do."""
        while self.loop.has_calls or any(member.session.pending for member in self.members):
            for member in self.members:
                member.session.work()
            self.loop.run_once(max_wait_ms=0)

    def pass_time(self, duration_ms: int) -> None:
        self.clock.pass_time(duration_ms)
        self.loop.run_once(max_wait_ms=0)
        self.settle()


class Outcomes:
    """Collects what a request was answered."""

    def __init__(self) -> None:
        self.given: list[dict[str, Outcome]] = []

    def __call__(self, outcomes: dict[str, Outcome], *_rest: object) -> None:
        self.given.append(outcomes)

    @property
    def codes(self) -> list[dict[str, str]]:
        return [{name: o.code.name for name, o in each.items()} for each in self.given]


def create(member: Member, name: str = "orders", factor: int = 2, **options: Any) -> Outcomes:
    outcomes = Outcomes()
    member.requests.create_topics(
        [NewTopic(name, 1, factor)],
        validate_only=options.get("validate_only", False),
        timeout_ms=options.get("timeout_ms", 1000),
        on_done=outcomes,
    )
    return outcomes


def updates(member: Member) -> dict[str, ClusterUpdate]:
    """The updates that are open, by endpoint."""
    return {asked.endpoint: asked.request for asked in member.link.asked}


def epoch_of(member: Member, broker: int) -> BrokerEpoch:
    """The epoch of a broker's registration, as the controller knows it."""
    assert member.driver.controller is not None
    return member.driver.controller.state.brokers[BrokerId(broker)].epoch


def propose(
    member: Member,
    isr: list[int],
    partition_epoch: int = 0,
    life: int = 0,
    partition: int = 0,
) -> list[PartitionAltered]:
    """`life` is added to the leader's broker epoch."""
    replies: list[PartitionAltered] = []
    where = TopicPartition("orders", partition)
    state = member.driver.controller.state.partition(where)  # type: ignore[union-attr]
    assert state is not None
    joining = [one for one in isr if one not in state.isr]
    member.requests.on_isr_proposed(
        AlterPartition(
            state.leader,
            BrokerEpoch(epoch_of(member, state.leader) + life),
            "orders",
            partition,
            tuple(BrokerId(one) for one in isr),
            state.leader_epoch,
            PartitionEpoch(partition_epoch),
            *(BrokerEpoch(epoch_of(member, BrokerId(one))) for one in joining),
        ),
        replies.append,
    )
    return replies
