"""What tools ask for by nodes is done or refused in the end, in whatever order things happen."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from cluster.coordinator.registry.documents import paths
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import Acknowledged
from tests.support.controller_stage import Member, Outcomes, Stage, propose
from tests.support.examples import examples

TOPICS = ("orders", "bills")
PARTITIONS = st.integers(0, 3)
"""The last one does not exist."""
REPLICAS = st.sampled_from([[3], [3, 1], [2, 3], [2, 1], [1], [1, 2, 3], [1, 4], []])
"""Broker 4 does not exist."""
MOVES = st.dictionaries(PARTITIONS, REPLICAS, min_size=1, max_size=4)
GARBAGE = st.sampled_from([b"", b"{", b"[]", b'{"version":2,"partitions":[]}'])


class AnyNodes(RuleBasedStateMachine):
    """In the end a node of reassignments names those that go on to its targets; none is left of the
    others, nor of unreadable ones."""

    def __init__(self) -> None:
        super().__init__()
        self.has_client = False
        self.stage = Stage()
        self.members = [self.stage.member(number) for number in (1, 2, 3)]
        self.members[0].driver.campaign()
        self._settle()
        for name in TOPICS:
            self._create(name)
        self._settle()

    @property
    def controller(self) -> Member | None:
        return next((each for each in self.members if each.driver.is_active), None)

    def _create(self, name: str) -> None:
        replicas = (BrokerId(1), BrokerId(2))
        if self.controller is not None:
            self.controller.requests.create_topics(
                [NewTopic(name, assignment=dict.fromkeys(range(3), replicas))],
                validate_only=False,
                timeout_ms=1_000,
                on_done=Outcomes(),
            )

    def _answer(self) -> bool:
        """Whether a message was answered."""
        answered = [each.link.answer_all(Acknowledged(ErrorCode.none)) for each in self.members]
        return any(answered)

    def _settle(self) -> None:
        self.stage.settle()
        while self._answer():
            self.stage.settle()

    def _put(self, path: str, document: bytes) -> None:
        if path in self.stage.tree.nodes:
            self.stage.tree.set(path, document, -1)
        else:
            self.stage.tree.create(path, document, 0)

    @rule(moves=MOVES)
    def ask_for_reassignments(self, moves: dict[int, list[int]]) -> None:
        self._put(
            paths.REASSIGN_PARTITIONS,
            json.dumps(
                {
                    "version": 1,
                    "partitions": [
                        {"topic": "orders", "partition": number, "replicas": replicas}
                        for number, replicas in moves.items()
                    ],
                }
            ).encode(),
        )

    @rule(
        garbage=GARBAGE,
        path=st.sampled_from([paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION]),
    )
    def write_garbage(self, garbage: bytes, path: str) -> None:
        self._put(path, garbage)

    @rule(is_so=st.sampled_from([False, False, False, True]))
    def remove_the_node(self, is_so: bool) -> None:
        if is_so and paths.REASSIGN_PARTITIONS in self.stage.tree.nodes:
            self.stage.tree.delete(paths.REASSIGN_PARTITIONS)

    @rule(number=PARTITIONS)
    def ask_for_an_election(self, number: int) -> None:
        partitions = [{"topic": "orders", "partition": number}]
        document = json.dumps({"version": 1, "partitions": partitions}).encode()
        self._put(paths.PREFERRED_REPLICA_ELECTION, document)

    @rule(name=st.sampled_from(["unknown", "bills", "bills", "orders"]))
    def ask_for_a_deletion(self, name: str) -> None:
        self._put(paths.delete_topic(name), b"")

    @rule(name=st.sampled_from(TOPICS))
    def create_again(self, name: str) -> None:
        self._create(name)

    @precondition(lambda self: self.controller is not None)
    @rule(number=PARTITIONS, wanted=st.none() | REPLICAS)
    def ask_as_a_client(self, number: int, wanted: list[int] | None) -> None:
        self.has_client = True
        replicas = None if wanted is None else tuple(map(BrokerId, wanted))
        self.controller.requests.alter_reassignments(  # type: ignore[union-attr]
            [(TopicPartition("orders", number), replicas)],
            may_change_factor=True,
            timeout_ms=1_000,
            on_done=lambda *_: None,
        )

    @rule(is_late=st.booleans())
    def let_new_replicas_join(self, is_late: bool) -> None:
        if is_late:
            self._settle()
        for number in range(3):
            controller, state = self.controller, self._state(number)
            if controller is None or state is None or not state.has_leader:
                continue
            joining = [broker for broker in state.adding if broker not in state.isr]
            if joining:
                isr: list[int] = [*state.isr, joining[0]]
                propose(controller, isr, state.partition_epoch, partition=number)

    def _state(self, number: int) -> PartitionState | None:
        member = self.controller
        if member is None or member.driver.controller is None:
            return None
        return member.driver.controller.state.partition(TopicPartition("orders", number))

    @rule(count=st.integers(1, 3))
    def work_a_little(self, count: int) -> None:
        for member in self.members:
            member.session.work(count)
        self.stage.loop.run_once(max_wait_ms=0)

    @rule()
    def answer(self) -> None:
        self._answer()

    @rule()
    def settle(self) -> None:
        self._settle()

    @rule(number=st.integers(0, 9))
    def change_the_controller(self, number: int) -> None:
        if number > 2:
            return  # most of the time: a new controller looks at everything again
        if paths.CONTROLLER in self.stage.tree.nodes:
            self.stage.tree.delete(paths.CONTROLLER)
        self.members[number].driver.campaign()

    def teardown(self) -> None:
        for member in self.members:
            member.driver.campaign()
        self._settle()
        tree = self.stage.tree
        assert self.controller is not None
        assert paths.PREFERRED_REPLICA_ELECTION not in tree.nodes
        assert tree.children(paths.DELETE_TOPICS) == []
        node = tree.nodes.get(paths.REASSIGN_PARTITIONS)
        if node is not None:
            rows: list[Any] = json.loads(node.document)["partitions"]
            assert rows
            for row in rows:
                state = self._state(row["partition"])
                assert state is not None
                assert state.is_reassigning
                # One that a client has replaced before it had begun leaves the node when it ends.
                kept = [broker for broker in state.replicas if broker not in state.removing]
                assert kept == row["replicas"] or self.has_client
        self.stage.loop.close()


TestAnyNodes = AnyNodes.TestCase
TestAnyNodes.settings = examples(100, stateful_step_count=25)
