"""Questions of leaders to transaction coordinators: few messages, and an answer for each."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from cluster.brokers.transactions.check_errors import ClientAge, commit_error, produce_error
from cluster.brokers.transactions.numbered import numbered, partitions_in
from cluster.brokers.transactions.transaction_checks import TransactionCheck, TransactionChecks
from cluster.coordinator.transactions.requests import (
    AddPartitions,
    ProducerIdentity,
    VerifyPartitions,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.control import Refusal
from cluster.protocol.peer.transactions import (
    CheckTransactions,
    PartitionErrors,
    TransactionPartitions,
)
from tests.support.cluster_states import a_broker
from tests.unit.brokers.transactions.sender_stage import HERE, NONE, OTHER, THIRD, SenderStage

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
ABSENT = ErrorCode.transaction_abortable
LOST = ErrorCode.network_exception


class ScriptedCoordinator:
    """Coordinates `id-N` on the leader of partition N; the shard here answers as it is told."""

    def __init__(self) -> None:
        self.refusal: ErrorCode | None = None
        self.waiting: list[tuple[AddPartitions, Callable[[ErrorCode], None]]] = []

    def partition_of(self, transactional_id: str) -> TopicPartition | None:
        if transactional_id == "too long":
            raise Refused(ErrorCode.invalid_request)
        if transactional_id == "nowhere":
            return None
        return TopicPartition("t", int(transactional_id.removeprefix("id-")))

    def find(self, _transactional_id: str) -> "ScriptedCoordinator":
        if self.refusal is not None:
            raise Refused(self.refusal)
        return self

    def ask(self, query: VerifyPartitions) -> Mapping[TopicPartition, ErrorCode]:
        return {each: NONE if each == P0 else ABSENT for each in query.partitions}

    def submit(self, request: AddPartitions, on_reply: Callable[[ErrorCode], None]) -> None:
        self.waiting.append((request, on_reply))


class ChecksStage(SenderStage):
    """The coordinator of `id-0` is here, that of `id-1` is broker 2, that of `id-2` broker 3."""

    def __init__(self) -> None:
        super().__init__()
        self.leaders(HERE, OTHER, THIRD, -1)
        self.coordinator = ScriptedCoordinator()
        link: Any = self.link
        coordinator: Any = self.coordinator
        self.checks = TransactionChecks(BrokerId(HERE), self.metadata, link, coordinator, self.loop)
        self.found: list[Mapping[TopicPartition, ErrorCode]] = []

    def check(
        self, name: str, *partitions: TopicPartition, is_added: bool = False, producer: int = 7
    ) -> None:
        identity = ProducerIdentity(producer, 3)
        wanted = frozenset(partitions or (P0,))
        self.checks.check(TransactionCheck(name, identity, wanted, is_added), self.found.append)


@pytest.fixture
def stage() -> Iterator[ChecksStage]:
    made = ChecksStage()
    yield made
    made.loop.close()


def test_the_questions_of_a_turn_go_in_one_message_to_each_coordinator(stage: ChecksStage) -> None:
    stage.check("id-1", P0, P2)
    stage.check("id-2", P1, is_added=True)
    stage.check("id-1", P1, producer=8)
    first, second = stage.asked()
    assert first.endpoint == a_broker(OTHER).control_endpoint
    assert [each[:4] for each in first.request.transactions] == [
        ("id-1", 7, 3, False),
        ("id-1", 8, 3, False),
    ]
    assert second.request.transactions[0][:4] == ("id-2", 7, 3, True)
    second.on_reply(PartitionErrors([[NONE]]))
    first.on_reply(PartitionErrors([[NONE, ABSENT], [LOST]]))
    assert stage.found == [{P1: NONE}, {P0: NONE, P2: ABSENT}, {P1: LOST}]


def test_many_questions_go_in_several_messages(stage: ChecksStage) -> None:
    for number in range(2_100):
        stage.check("id-1", producer=number)
    asked = stage.asked()
    assert [len(each.request.transactions) for each in asked] == [1_000, 1_000, 100]
    for each in asked:
        each.on_reply(PartitionErrors([[NONE]] * len(each.request.transactions)))
    assert stage.found == [{P0: NONE}] * 2_100


@pytest.mark.parametrize(
    "reply",
    [None, Refusal(ErrorCode.invalid_request, "why"), PartitionErrors([]), PartitionErrors([[]])],
)
def test_every_question_has_an_answer_if_the_coordinator_gives_none(
    stage: ChecksStage, reply: Any
) -> None:
    stage.check("id-1", P0, P1)
    stage.check("id-1", P2)
    (asked,) = stage.asked()
    asked.on_reply(reply)
    assert stage.found == [{P0: LOST, P1: LOST}, {P2: LOST}]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", ErrorCode.coordinator_not_available),
        ("id-3", ErrorCode.coordinator_not_available),  # without a leader
        ("id-9", ErrorCode.coordinator_not_available),  # no such partition
        ("too long", ErrorCode.invalid_request),
    ],
)
def test_a_coordinator_that_is_not_known_is_an_answer(
    stage: ChecksStage, name: str, code: ErrorCode
) -> None:
    stage.check(name, P0, P1)
    assert stage.found == [{P0: code, P1: code}]
    assert stage.asked() == []


def test_a_coordinator_that_dies_in_the_turn_is_an_answer(stage: ChecksStage) -> None:
    stage.check("id-1")
    stage.leaders(HERE, OTHER, live=(HERE, THIRD))
    assert stage.asked() == []
    assert stage.found == [{P0: ErrorCode.coordinator_not_available}]


def test_a_coordinator_here_is_asked_directly(stage: ChecksStage) -> None:
    stage.check("id-0", P0, P1)
    assert stage.found == [{P0: NONE, P1: ABSENT}]
    stage.check("id-0", P1, P2, is_added=True)
    ((request, on_reply),) = stage.coordinator.waiting
    assert request.partitions == {P1, P2}
    assert request.client_version == 2
    assert len(stage.found) == 1
    on_reply(ErrorCode.concurrent_transactions)
    assert stage.found[1] == dict.fromkeys((P1, P2), ErrorCode.concurrent_transactions)
    stage.coordinator.refusal = ErrorCode.coordinator_load_in_progress
    stage.check("id-0")
    assert stage.found[2] == {P0: ErrorCode.coordinator_load_in_progress}


# -- the coordinator's side ------------------------------------------------------------------------


def test_a_request_is_answered_when_all_its_questions_are(stage: ChecksStage) -> None:
    replies: list[Any] = []
    request = CheckTransactions(
        (
            TransactionPartitions("id-0", 7, 3, True, numbered([P1, P0])),
            TransactionPartitions("id-0", 8, 3, False, numbered([P0, P2])),
        )
    )
    stage.checks.on_request(request, replies.append)
    assert replies == []
    stage.coordinator.waiting[0][1](NONE)
    assert replies == [PartitionErrors([[NONE, NONE], [NONE, ABSENT]])]


def test_a_request_to_a_broker_that_does_not_coordinate_is_answered(stage: ChecksStage) -> None:
    stage.coordinator.refusal = ErrorCode.not_coordinator
    replies: list[Any] = []
    asked = TransactionPartitions("id-1", 7, 3, True, numbered([P0, P1]))
    stage.checks.on_request(CheckTransactions((asked,)), replies.append)
    stage.checks.on_request(CheckTransactions(()), replies.append)
    assert replies == [PartitionErrors([[ErrorCode.not_coordinator] * 2]), PartitionErrors(())]


# -- codes and numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("age", ClientAge)
@pytest.mark.parametrize("code", [NONE, ErrorCode.invalid_producer_id_mapping, LOST])
def test_other_codes_of_commits_stay_as_they_are(age: ClientAge, code: ErrorCode) -> None:
    expected = ErrorCode.coordinator_load_in_progress if code is LOST else code
    assert commit_error(code, age) is expected
    assert commit_error(ErrorCode.producer_fenced, age) is ErrorCode.invalid_producer_epoch
    assert produce_error(LOST, age) is ErrorCode.not_enough_replicas


def test_partitions_are_numbered_by_topic() -> None:
    other = TopicPartition("a", 5)
    found = numbered({P2, P0, other})
    assert found == (("a", [5]), ("t", [0, 2]))
    assert partitions_in(found) == [other, P0, P2]
    assert partitions_in(numbered([])) == []
