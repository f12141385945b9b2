"""`transactions explain --transactional-id`: the course of transactions, from whole stories."""

import json
from collections.abc import Callable

import pytest

from cluster.coordinator.transactions.explanation import (
    ANSWER,
    ExplainTransaction,
    ExplainTransactionAnswer,
)
from cluster.coordinator.transactions.requests import (
    AddPartitions,
    ClientName,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
)
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.tools.transactions.explanation_json import id_object
from cluster.views.explained_lines import WIDTH
from cluster.views.known_holders import KnownId
from cluster.views.transactions.id_text import id_text
from tests.support.transaction_stage import (
    ID,
    P0,
    P1,
    TIMEOUT_MS,
    V2,
    WALL_MS,
    TransactionStage,
)

BILLING, AUDIT = ClientName("billing", "/10.0.0.7"), ClientName("audit", "/10.0.0.8")
Story = Callable[[TransactionStage], None]


def start(stage: TransactionStage, client: ClientName = BILLING) -> ProducerIdentity:
    return stage.producer_in(stage.submit(InitProducer(ID, TIMEOUT_MS, client=client)))


def add(stage: TransactionStage, producer: ProducerIdentity, *partitions: TopicPartition) -> None:
    stage.submit(AddPartitions(ID, producer, frozenset(partitions), V2, BILLING))


def end(stage: TransactionStage, producer: ProducerIdentity, *, is_commit: bool = True) -> None:
    stage.submit(EndTransaction(ID, producer, is_commit, V2, client=BILLING))


def is_open(stage: TransactionStage) -> None:
    add(stage, start(stage), P0, P1)
    stage.pass_time(12_000)


def commits(stage: TransactionStage) -> None:
    producer = start(stage)
    add(stage, producer, P0)
    stage.pass_time(20)
    stage.submit(AddPartitions(ID, producer, frozenset({P1}), V2, BILLING, "readers"))
    stage.pass_time(15)
    stage.holds_appends = True
    end(stage, producer)
    stage.pass_time(4)
    stage.settle()
    stage.pass_time(3)
    stage.mark(P0)
    stage.mark(P1)
    stage.pass_time(5_000)


def is_fenced(stage: TransactionStage) -> None:
    old = start(stage)
    add(stage, old, P0)
    stage.pass_time(70)
    stage.marks = True
    start(stage, AUDIT)
    for _ in range(2):
        stage.pass_time(1_500)
        end(stage, old)


def times_out(stage: TransactionStage) -> None:
    stage.marks = True
    add(stage, start(stage), P0)
    stage.pass_time(TIMEOUT_MS + 15_000)


def lacks_a_marker(stage: TransactionStage) -> None:
    producer = start(stage)
    add(stage, producer, P0, P1)
    end(stage, producer, is_commit=False)
    stage.pass_time(3_000)
    stage.mark(P0)


def waits_for_replicas(stage: TransactionStage) -> None:
    producer = start(stage)
    add(stage, producer, P0)
    stage.holds_appends = True
    end(stage, producer)
    stage.pass_time(700)


def told(story: Story) -> KnownId:
    stage = TransactionStage().loaded()
    story(stage)
    found = stage.ask(ExplainTransaction(ID, WALL_MS + 1_000))
    answer = ExplainTransactionAnswer(ErrorCode.none, 1, stage.now.wall_ms, found)
    return KnownId(ID, ANSWER.read(ANSWER.pack(answer)))


def text(story: Story, last: int = 5) -> str:
    printed = id_text(told(story), "127.0.0.1:9093", last)
    assert max(map(len, printed.splitlines())) <= WIDTH
    return printed


def test_a_committed_transaction_is_printed_step_by_step() -> None:
    assert text(commits).splitlines() == [
        "'payments-1': no transaction is open; the last one was committed, 5.0 s ago.",
        "  coordinator   broker 1 (127.0.0.1:9093)",
        "  producer      id 1000, epoch 1; client billing at 10.0.0.7",
        "",
        "1 transaction known since 2023-11-14 22:13:21.000 UTC",
        "2023-11-14 22:13:21.000  producer started: id 1000, epoch 0; client billing at 10.0.0.7",
        "2023-11-14 22:13:21.000  transaction of id 1000, epoch 0: committed, in 42 ms",
        "    +0          began with orders-0; stored in 0",
        "    +20 ms      offsets of group readers (orders-1) added; stored in 0",
        "    +35 ms      commit asked for by client billing at 10.0.0.7; stored in 4 ms",
        "    +42 ms      marker in orders-0, orders-1",
        "    +42 ms      complete",
    ]


@pytest.mark.parametrize(
    ("story", "lines"),
    [
        (
            is_open,
            [
                "'payments-1': a transaction has been open for 12.0 s, in 2 partitions; unless its",
                "(transaction.timeout.ms=60000).",
                "  partitions    orders-0, orders-1",
                "  to end it now bin/cluster transactions force-terminate --transactional-id",
                "epoch 0: open",
            ],
        ),
        (
            is_fenced,
            [
                "epoch 0: aborted because another producer started",
                "    +70 ms      fenced by client audit at 10.0.0.8, which started with the",
                "client audit at 10.0.0.8, which",
                "fenced: EndTxn of id 1000, epoch 0 was refused (PRODUCER_FENCED); client",
                "billing at 10.0.0.7; 2 times until 22:13:24.070",
            ],
        ),
        (
            times_out,
            [
                "the last one was aborted because it timed out",
                "nobody has this epoch, client billing at 10.0.0.7 is fenced",
                "timed out: aborted by its coordinator in a higher epoch",
            ],
        ),
        (
            lacks_a_marker,
            [
                "'payments-1': the abort of a transaction was stored 3.0 s ago; its marker is"
                " missing in orders-1.",
                "aborted by its client, markers are",
            ],
        ),
        (
            waits_for_replicas,
            [
                "'payments-1': a transaction ends when its commit is stored: it was asked for 700"
                " ms ago, and",
                "  being stored  PrepareCommit",
            ],
        ),
    ],
)
def test_a_story_is_told(story: Story, lines: list[str]) -> None:
    printed = text(story)
    for line in lines:
        assert line in printed


def test_only_the_last_transactions_are_printed() -> None:
    def many(stage: TransactionStage) -> None:
        stage.marks = True
        producer = start(stage)
        for _ in range(12):
            stage.pass_time(1_000)
            add(stage, producer, P0)
            producer = stage.producer_in(stage.submit(EndTransaction(ID, producer, True, V2)))

    printed = text(many, last=2)
    assert "12 transactions known since 2023-11-14 22:13:21.000 UTC, the last 2 shown" in printed
    assert printed.count("transaction of id") == 2
    assert "producer started" not in printed


@pytest.mark.parametrize(
    "story", [is_open, commits, is_fenced, times_out, lacks_a_marker, waits_for_replicas]
)
def test_scripts_get_the_same_facts(story: Story) -> None:
    known = told(story)
    found = json.loads(json.dumps(id_object(known, 5)))
    explained = known.answer.transaction
    assert explained is not None
    assert found["sentence"] in " ".join(text(story).split())
    assert found["state"] == explained.state.label
    assert (found["times_out"] is not None) == (explained.state.label == "Ongoing")
    for transaction, printed in zip(explained.transactions, found["transactions"], strict=True):
        assert [each["kind"].upper() for each in printed["steps"]] == [
            each.kind.name for each in transaction.steps
        ]
    assert len(found["refusals"]) == len(explained.refusals)
