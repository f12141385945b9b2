"""Transactions whose transactional ids the user may not describe are not called hanging."""

from collections.abc import Mapping
from typing import Any

import pytest

from cluster.client.explanation_requests import ExplainedPartitions
from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import TransactionEnd
from cluster.coordinator.transactions.held_back import HeldPartition, OpenTransaction
from cluster.coordinator.transactions.requests import ProducerIdentity
from cluster.model.errors import UserError
from cluster.protocol.messages import DescribedProducer
from cluster.tools.transactions import find_hanging, hidden
from cluster.views import find_holders
from cluster.views.known_holders import Verdict
from cluster.views.transactions import ending

ADMIN: Any = object()
PLACE = Place("orders", 0)
HIDDEN, NOBODYS = 7, 8


class Cluster:
    """What brokers answer: no transactional id that the user may see has any of these producers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.problem = ""
        for module in (find_hanging, ending):
            monkeypatch.setattr(module, "transactions_of", lambda _admin, _ids: [])
        monkeypatch.setattr(find_holders, "find_producer", lambda _admin, _id: (None, []))
        for asking in (hidden, find_holders):
            monkeypatch.setattr(asking, "hidden_among", self.hidden_among)

    def hidden_among(self, _admin: Any, producer_ids: set[int]) -> set[int]:
        if self.problem:
            raise UserError(self.problem)
        return {HIDDEN} & set(producer_ids)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def a_producer(producer_id: int) -> DescribedProducer:
    return DescribedProducer(
        producer_id=producer_id,
        producer_epoch=0,
        last_sequence=0,
        last_timestamp=0,
        coordinator_epoch=0,
        current_txn_start_offset=0,
    )


def found_hanging() -> list[int]:
    suspects = [find_hanging.OpenTransaction(PLACE, a_producer(each)) for each in (HIDDEN, NOBODYS)]
    return [each.producer.producer_id for each in find_hanging.hanging_among(ADMIN, suspects)]


def verdicts() -> Mapping[int, tuple[Verdict, str]]:
    """What `explain` says of the transaction of each producer id after a change of leaders."""

    def ask() -> ExplainedPartitions:
        told = ExplainedPartitions()
        for number, producer in enumerate((HIDDEN, NOBODYS)):
            place = Place("orders", number)
            identity = ProducerIdentity(producer, 0)
            opened = OpenTransaction(identity, 0, 0, 0, 0, writer=None)
            told.held[place] = HeldPartition(
                *place, 0, 1, 1, 1, 70, (opened,), 0, None, is_index_damaged=False
            )
            told.leaders[place] = 1
        return told

    _, holders = find_holders.find_holders(ADMIN, ask)
    return {
        each.first.producer.producer_id: (each.verdict, each.problem)
        for each in holders
        if each.first is not None
    }


def test_find_hanging_leaves_hidden_transactions_out_and_says_so(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found_hanging() == [NOBODYS]
    assert capsys.readouterr().err == (
        "warning: not examined: 1 open transaction, because this user may not describe the"
        " transactional id\n"
    )


def test_find_hanging_warns_where_brokers_do_not_tell_what_is_hidden(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.problem = "the broker is one of Kafka"
    assert found_hanging() == [HIDDEN, NOBODYS]
    said = capsys.readouterr().err
    assert said.startswith("warning: not known whether this user may describe")
    assert said.endswith(": the broker is one of Kafka\n")


def test_explain_says_that_the_user_may_not_look(cluster: Cluster) -> None:
    assert verdicts() == {
        HIDDEN: (Verdict.UNKNOWN, "this user may not describe its transactional id"),
        NOBODYS: (Verdict.HANGING, ""),
    }


def test_explain_does_not_know_what_brokers_do_not_tell(cluster: Cluster) -> None:
    cluster.problem = "broker 1 does not answer"
    assert set(verdicts().values()) == {(Verdict.UNKNOWN, cluster.problem)}


def test_abort_refuses_a_transaction_that_the_user_may_not_see(cluster: Cluster) -> None:
    def check(producer_id: int) -> None:
        end = TransactionEnd(producer_id, 0, 0)
        ending.check_hanging(ADMIN, PLACE, end, hidden.hidden_from_user)

    check(NOBODYS)
    with pytest.raises(UserError, match="may not describe its transactional id; --force"):
        check(HIDDEN)
