"""The controller's invariants hold after any events in any order."""

from collections import deque
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.model.cluster import BrokerRegistration
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, ControllerEpoch, TopicPartition
from cluster.model.plan import Outcome, Plan
from cluster.model.topics import NewTopic
from tests.support.cluster_states import a_broker, a_cluster
from tests.support.examples import examples

EPOCH = a_broker(1).epoch


def complete(plan: Plan) -> Plan:
    """The plan after all of its steps."""
    deque(plan.steps, maxlen=0)
    return plan


class AnyEvents(RuleBasedStateMachine):
    """The invariants of the state hold after any events in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller(
            ControllerEpoch(5),
            a_cluster([]),
            TopicRules(1, 1, lambda _configs: None),
            Random(1),
            lambda _configs: False,
        )
        self.epochs = dict.fromkeys(range(4), 100)
        self.live = {0, 1, 2, 3}
        self.best: dict[TopicPartition, tuple[int, int]] = {}
        self.leaders: dict[tuple[TopicPartition, int], int] = {}
        self._carry_out(self.controller.on_takeover(self._registrations(), {}, {}))

    def _registrations(self) -> list[BrokerRegistration]:
        return [a_broker(number, self.epochs[number]) for number in sorted(self.live)]

    def _carry_out(self, plan: Plan) -> None:
        complete(plan)
        for partition, new in plan.changed.items():
            old = self.controller.state.partition(partition)
            assert old is not None
            assert new.partition_epoch == old.partition_epoch + 1
        plan.apply(self.controller.state)
        self.controller.on_applied(plan)

    @rule(number=st.integers(0, 3))
    def lose(self, number):
        self.live.discard(number)
        self._carry_out(self.controller.on_brokers_changed(self._registrations())[0])

    @rule(number=st.integers(0, 3), bounce=st.booleans())
    def come(self, number, bounce):
        if number not in self.live or bounce:
            self.epochs[number] += 1
        self.live.add(number)
        self._carry_out(self.controller.on_brokers_changed(self._registrations())[0])

    @rule(number=st.integers(0, 3))
    def shut_down(self, number):
        self._carry_out(self.controller.on_controlled_shutdown(BrokerId(number)))

    @precondition(lambda self: self.live and len(self.controller.state.topics) < 4)
    @rule(data=st.data())
    def create(self, data):
        name = f"t{len(self.controller.state.topics)}"
        factor = data.draw(st.integers(1, len(self.live)))
        plan, outcomes, _ = self.controller.create_topics([NewTopic(name, 2, factor)])
        assert outcomes[name].code is ErrorCode.none
        self._carry_out(plan)

    @precondition(lambda self: self.controller.state.topics)
    @rule(data=st.data())
    def propose(self, data):
        partition, state = data.draw(st.sampled_from(list(self.controller.state.partitions())))
        others = data.draw(st.lists(st.sampled_from(state.replicas), unique=True))
        isr = tuple(dict.fromkeys([state.leader, *others]))
        plan, _ = self.controller.on_isr_proposed(
            state.leader, partition, isr, state.leader_epoch, state.partition_epoch, EPOCH
        )
        self._carry_out(plan)

    @precondition(lambda self: self.controller.state.topics)
    @rule(data=st.data())
    def move(self, data):
        partition, _ = data.draw(st.sampled_from(list(self.controller.state.partitions())))
        replicas = st.lists(st.integers(0, 3).map(BrokerId), unique=True, min_size=1).map(tuple)
        target = data.draw(st.none() | replicas)
        before = self.controller.state.partition(partition)
        plan, outcomes = self.controller.alter_reassignments(
            [(partition, target)], may_change_factor=True
        )
        self._carry_out(plan)
        if outcomes != [(partition, Outcome(ErrorCode.none))]:
            assert not plan.changed
            return
        after = self.controller.state.partition(partition)
        if target is None:
            assert after.replicas == before.original_replicas
            assert not after.is_reassigning
        else:
            assert after.replicas[: len(target)] == target
            assert set(after.replicas) == {*target, *after.removing}
            assert set(after.removing) <= set(before.original_replicas)

    @rule()
    def complete_moves(self):
        before = dict(self.controller.reassigning.states(None))
        plan = self.controller.complete_reassignments()
        self._carry_out(plan)
        for partition, after in plan.changed.items():
            old = before[partition]
            assert after.replicas == tuple(b for b in old.replicas if b not in old.removing)
            assert set(after.isr) == set(after.replicas)

    @invariant()
    def moving_partitions_are_known(self):
        moving = {p for p, state in self.controller.state.partitions() if state.is_reassigning}
        assert moving == set(self.controller.reassigning.partitions)
        for partition in moving:
            state = self.controller.state.partition(partition)
            assert set(state.adding) | set(state.removing) <= set(state.replicas)
            assert not set(state.adding) & set(state.removing)

    @invariant()
    def states_are_sound(self):
        for partition, state in self.controller.state.partitions():
            assert state.isr
            assert len(set(state.isr)) == len(state.isr)
            assert set(state.isr) <= set(state.replicas)
            if state.has_leader:
                assert state.leader in state.isr
                assert state.leader in self.live
                assert self.leaders.setdefault((partition, state.leader_epoch), state.leader) == (
                    state.leader
                )
            else:
                assert not set(state.isr) & self.live
            epochs = (int(state.leader_epoch), int(state.partition_epoch))
            before = self.best.get(partition, (0, 0))
            assert epochs[0] >= before[0]
            assert epochs[1] >= before[1]
            self.best[partition] = epochs


TestAnyEvents = AnyEvents.TestCase
TestAnyEvents.settings = examples(80, stateful_step_count=30)
