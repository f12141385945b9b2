"""Histories in which partitions move to other replicas, again and again, whatever fails meanwhile.

The target of a move is any set of brokers in any order: replicas are added, removed, exchanged and
reordered, also while an earlier move is in progress, and moves are canceled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.brokers.replication.partition import Partition
from cluster.coordinator.registry.documents import paths
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from tests.simulation.broker import SimulatedBroker
from tests.simulation.checks import Replicated, decode_state, state_path
from tests.simulation.cluster import QUIET_LIMIT_MS, SimulatedCluster
from tests.simulation.faults import STEPS, GroupCommits, LostDisks, PowerLosses, RandomHistory
from tests.simulation.transactions.histories import TransactionHistory

Replicas = tuple[BrokerId, ...]

_TIMEOUT_MS: Final = 1_000


@dataclass(slots=True)
class _Request:
    """A request for one partition; `results` are the replicas that it may lead to."""

    results: set[Replicas]
    is_answered: bool = False


@dataclass(slots=True)
class _Wishes:
    """What was asked for one partition, as far as it may still count, in order."""

    first: Replicas
    """The replicas before the oldest of the requests."""
    requests: list[_Request] = field(default_factory=list)

    def possible(self) -> set[Replicas]:
        """The replicas that the partition may have at the end."""
        return {self.first}.union(*(each.results for each in self.requests))


class ReassignmentChecks:
    """What must hold of moving partitions after every event.

    - Leader, ISR, added and removed replicas are among the assigned ones, in the registry, even
      where a plan is written only in part.
    - Leader epochs never decrease in the registry.
    - No broker deletes its log while it is assigned and in sync.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._documents: dict[TopicPartition, tuple[bytes, bytes]] = {}
        self._epochs: dict[Replicated, int] = {}
        self._logs: dict[tuple[int, int], dict[TopicPartition, Partition]] = {}
        self._replicas: dict[Replicated, Replicas] = {}
        self.change_count = 0
        """How often a partition's replicas have changed in the registry."""

    def after_event(self) -> None:
        self._cluster.checks.after_event()
        for partition, replicas in self._cluster.assignment.items():
            self._look_at(partition, replicas)
        for broker in self._cluster.brokers.values():
            if broker.node.is_alive:
                self._look_for_deleted_logs(broker)

    def _look_at(self, partition: TopicPartition, replicas: Replicas) -> None:
        tree = self._cluster.tree
        topic, state = (
            tree.nodes[paths.topic(partition.topic)],
            tree.nodes.get(state_path(partition)),
        )
        topic_id = self._cluster.topic_id(partition.topic)
        if state is None or topic_id is None:
            return
        documents = topic.document, state.document
        if self._documents.get(partition) == documents:
            return
        self._documents[partition] = documents
        found = decode_state(state.document)
        what = f"{partition} with replicas {replicas} is {found}"
        assert set(found.isr) <= set(replicas), what
        assert found.leader < 0 or found.leader in found.isr, what
        adding, removing = self._moving(partition)
        assert {*adding, *removing} <= set(replicas), what
        assert not set(adding) & set(removing), what
        identity = Replicated(topic_id, partition.partition)
        assert found.leader_epoch >= self._epochs.get(identity, 0), what
        self._epochs[identity] = found.leader_epoch
        self.change_count += self._replicas.setdefault(identity, replicas) != replicas
        self._replicas[identity] = replicas

    def _moving(self, partition: TopicPartition) -> tuple[Replicas, Replicas]:
        assignment = self._cluster.registered_topic(partition.topic)
        return (
            assignment.adding.get(partition.partition, ()),
            assignment.removing.get(partition.partition, ()),
        )

    def _look_for_deleted_logs(self, broker: SimulatedBroker) -> None:
        life = int(broker.id), broker.node.life
        logs = {partition.id: partition for partition in broker.table}
        before = self._logs.get(life)
        if logs == before:
            return
        self._logs[life] = logs
        for partition, replica in (before or {}).items():
            is_gone = logs.get(partition) is not replica
            if is_gone and self._cluster.topic_id(partition.topic) == replica.topic_id:
                state = self._cluster.registered_state(partition)
                is_there = broker.table.offline.find(partition) is not None
                assert state is None or is_there or broker.id not in state.isr, (
                    f"broker {broker.id} deletes {partition}, which is {state}"
                )

    def is_moving(self) -> bool:
        """Whether any partition is being moved, in the registry."""
        return any(any(self._moving(each)) for each in self._cluster.assignment)

    def original(self, partition: TopicPartition) -> Replicas:
        """The replicas without those that are being added, in the registry."""
        adding, _ = self._moving(partition)
        return tuple(each for each in self._cluster.assignment[partition] if each not in adding)

    def target(self, partition: TopicPartition) -> Replicas:
        """The replicas without those that are being removed, in the registry."""
        _, removing = self._moving(partition)
        return tuple(each for each in self._cluster.assignment[partition] if each not in removing)

    def spare_logs(self) -> list[str]:
        """The logs on brokers that are not assigned to their partition."""
        assignment = self._cluster.assignment
        return [
            f"{partition.id} on {broker.id}"
            for broker in self._cluster.brokers.values()
            for partition in broker.table
            if broker.id not in assignment.get(partition.id, ())
        ]


def move(broker: SimulatedBroker, partition: TopicPartition, target: Sequence[int]) -> None:
    """Ask a controller to move one partition, without waiting for the outcome."""
    asked = [(partition, tuple(map(BrokerId, target)))]
    broker.node.run(
        lambda: broker.requests.alter_reassignments(
            asked, may_change_factor=True, timeout_ms=_TIMEOUT_MS, on_done=lambda *_: None
        )
    )


class Reassignments(RandomHistory):
    """Partitions move while everything else happens; ends with the replicas that were asked for."""

    replicas_min = 1

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self.checks = ReassignmentChecks(cluster)
        cluster.world.after_each = self.checks.after_event
        self._wishes: dict[Replicated, _Wishes] = {}
        self._actions += [
            (30, self._move),
            (8, self._cancel),
            (8, self._there_and_back),
            # Moves take brokers that live.
            (20, self._restart),
            (10, self._resume),
            (10, self._reach_registry),
            (10, self._join),
        ]

    def run(self, steps: int = STEPS) -> None:
        super().run(steps)
        cluster = self._cluster
        for partition, replicas in cluster.assignment.items():
            wishes = self._wishes.get(self._identity(partition))
            possible = {replicas} if wishes is None else wishes.possible()
            assert replicas in possible, f"{partition} has {replicas}, asked were {possible}"

    def _heal(self) -> None:
        """Everything heals, then each partition moves once more, which nothing disturbs."""
        super()._heal()
        cluster = self._cluster
        assert cluster.world.run_until(self._is_whole, QUIET_LIMIT_MS), "a broker is missing"
        for partition in self._movable():
            self._ask([(partition, self._target(partition))])
        assert cluster.world.run_until(self._are_last_answered, QUIET_LIMIT_MS), "no answer"
        assert cluster.world.run_until(lambda: not self.checks.is_moving(), QUIET_LIMIT_MS), (
            "a partition still moves: " + cluster.describe()
        )
        assert cluster.world.run_until(lambda: not self.checks.spare_logs(), QUIET_LIMIT_MS), (
            f"logs that nobody needs: {self.checks.spare_logs()}"
        )

    def _is_whole(self) -> bool:
        controller = self._cluster.controller
        known = None if controller is None else controller.driver.controller
        return known is not None and len(known.state.brokers) == len(self._cluster.brokers)

    def _are_last_answered(self) -> bool:
        """Whether the last request for each partition is answered; all went to one controller."""
        found = [self._wishes.get(self._identity(each)) for each in self._movable()]
        return all(
            wishes.requests[-1].is_answered for wishes in found if wishes and wishes.requests
        )

    def _movable(self) -> list[TopicPartition]:
        """The partitions that may be moved."""
        return self._writable()

    def _identity(self, partition: TopicPartition) -> Replicated:
        topic_id = self._cluster.topic_id(partition.topic)
        assert topic_id is not None
        return Replicated(topic_id, partition.partition)

    def _move(self) -> None:
        """Ask for any replicas; often near the present ones, as people do."""
        partitions = self._movable()
        chosen = self._random.sample(
            partitions, self._random.choice([1, 1, min(2, len(partitions))])
        )
        self._ask([(partition, self._target(partition)) for partition in chosen])

    def _target(self, partition: TopicPartition) -> Replicas:
        brokers = [BrokerId(each) for each in self._cluster.brokers]
        present = list(self.checks.original(partition))
        kind = self._random.choice(["any", "add", "remove", "exchange", "order", "turn"])
        others = [each for each in brokers if each not in present]
        if kind == "add" and others:
            present.insert(self._random.randrange(len(present) + 1), self._random.choice(others))
        elif kind == "remove" and len(present) > self.replicas_min:
            present.remove(self._random.choice(present))
        elif kind == "exchange" and others:
            present[self._random.randrange(len(present))] = self._random.choice(others)
        elif kind == "order":
            self._random.shuffle(present)
        elif kind == "turn":
            present = present[1:] + present[:1]
        else:
            size = self._random.randrange(self.replicas_min, min(4, len(brokers)) + 1)
            present = self._random.sample(brokers, size)
        return tuple(present)

    def _there_and_back(self) -> None:
        """Drop a replica and add it again at once: it may not know of the first."""
        partition = self._random.choice(self._movable())
        present = self.checks.original(partition)
        if len(present) > self.replicas_min:
            dropped = self._random.choice(present)
            self._ask([(partition, tuple(each for each in present if each != dropped))])
            self._ask([(partition, present)])

    def _cancel(self) -> None:
        self._ask([(self._random.choice(self._movable()), None)])

    def _ask(self, asked: Sequence[tuple[TopicPartition, Replicas | None]]) -> None:
        """Ask the controller, or a broker that may take itself for it, without waiting."""
        cluster = self._cluster
        of = self._any_broker() if self._random.random() < 0.1 else None
        broker = cluster.controller if of is None else cluster.brokers[of]
        if broker is None or not broker.is_up or not asked:
            return
        cluster.world.note(f"broker {broker.id} is to move {asked}")
        requests = [self._note(partition, target) for partition, target in asked]

        def on_done(_outcome: Any, outcomes: Any) -> None:
            for (identity, request), (partition, outcome) in zip(requests, outcomes, strict=True):
                cluster.world.note(f"move of {partition}: {outcome.code.name} {outcome.detail}")
                self._on_answer(identity, request, outcome.code)
                self._check_target(partition, identity)

        node, moves = broker.node, broker.requests
        node.run(
            lambda: moves.alter_reassignments(
                asked, may_change_factor=True, timeout_ms=_TIMEOUT_MS, on_done=on_done
            )
        )

    def _check_target(self, partition: TopicPartition, identity: Replicated) -> None:
        """The partition is on its way to what was asked for last."""
        if self._cluster.topic_id(partition.topic) == identity.topic_id:
            target = self.checks.target(partition)
            possible = self._wishes[identity].possible()
            assert target in possible, f"{partition} moves to {target}, asked were {possible}"

    def _note(
        self, partition: TopicPartition, target: Replicas | None
    ) -> tuple[Replicated, _Request]:
        identity = self._identity(partition)
        original = self.checks.original(partition)
        wishes = self._wishes.setdefault(identity, _Wishes(original))
        results = {original if target is None else target}
        if target is None and not all(each.is_answered for each in wishes.requests):
            results |= wishes.possible()  # an earlier move may complete before
        request = _Request(results)
        wishes.requests.append(request)
        return identity, request

    def _on_answer(self, identity: Replicated, request: _Request, code: ErrorCode) -> None:
        request.is_answered = True
        wishes = self._wishes[identity]
        if code is ErrorCode.none and request in wishes.requests:
            # An operation of an earlier controller can not be carried out any more.
            del wishes.requests[: wishes.requests.index(request)]
            wishes.first = next(iter(request.results))
        elif code not in _UNCERTAIN and request in wishes.requests:
            wishes.requests.remove(request)


_UNCERTAIN: Final = (ErrorCode.request_timed_out, ErrorCode.none, ErrorCode.not_controller)
"""The change may have been made, or may still be."""


class ReassignmentsWithPowerLosses(Reassignments, PowerLosses):
    """One machine at a time loses what it had not synced while partitions move."""

    replicas_min = 2


class ReassignmentsWithLostDisks(Reassignments, LostDisks):
    """The disks of one broker at a time are lost while partitions move."""

    replicas_min = 2


class MovingCoordinators(Reassignments):
    """The partitions of coordinators move too."""

    replicas_min = 2

    def _movable(self) -> list[TopicPartition]:
        return list(self._cluster.assignment)


class ReassignmentsWithGroups(MovingCoordinators, GroupCommits):
    """Groups commit offsets while everything moves."""


class ReassignmentsWithTransactions(MovingCoordinators, TransactionHistory):
    """Transactions take place while everything moves."""
