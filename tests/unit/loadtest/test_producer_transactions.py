"""The transactions of a load test's producer, against a client that does what a test says."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.measured_client import now_us
from cluster.loadtest.producer_transactions import TimedTransactions

LATER = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, retriable=True)
ABORTABLE = KafkaError(KafkaError.TRANSACTION_ABORTABLE, txn_requires_abort=True)
FENCED = KafkaError(KafkaError.PRODUCER_FENCED, fatal=True)
HOUR_US = 3_600_000_000


class FakeClient:
    def __init__(self, *commit_errors: KafkaError) -> None:
        self.course: list[str] = []
        self._errors = list(commit_errors)

    def init_transactions(self, _timeout: float) -> None:
        self.course.append("init")

    def begin_transaction(self) -> None:
        self.course.append("begin")

    def commit_transaction(self, _timeout: float) -> None:
        self.course.append("commit")
        if self._errors:
            raise KafkaException(self._errors.pop(0))

    def abort_transaction(self, _timeout: float) -> None:
        self.course.append("abort")


def transactions(client: FakeClient, duration_us: int = 0) -> TimedTransactions:
    made: Any = client
    return TimedTransactions(made, duration_us)


def test_a_transaction_begins_with_a_record_and_is_committed() -> None:
    client, interval = FakeClient(LATER), ClientInterval(0)
    one = transactions(client)
    assert one.end(interval, is_commit=True) == []
    one.add(0, 1)
    one.add(1, 1)
    assert one.is_due(now_us())
    assert one.end(interval, is_commit=True) == []
    assert client.course == ["init", "begin", "commit", "commit"]
    assert (interval.transactions, interval.aborted_transactions) == (1, 0)
    assert interval.commit_latency.max_us >= 0
    assert not one.is_due(now_us() + HOUR_US)


def test_a_young_transaction_is_not_due() -> None:
    one = transactions(FakeClient(), HOUR_US)
    one.add(0, 1)
    assert not one.is_due(now_us())
    assert one.is_due(now_us() + HOUR_US)


@pytest.mark.parametrize(("errors", "is_commit"), [([ABORTABLE], True), ([], False)])
def test_the_records_of_an_aborted_transaction_are_returned(errors, is_commit) -> None:
    client, interval = FakeClient(*errors), ClientInterval(0)
    one = transactions(client)
    one.add(0, 1)
    one.add(2, 7)
    assert one.end(interval, is_commit=is_commit) == [(0, 1), (2, 7)]
    assert client.course[-1] == "abort"
    assert (interval.transactions, interval.aborted_transactions) == (0, 1)


def test_a_fenced_producer_ends() -> None:
    one = transactions(FakeClient(FENCED))
    one.add(0, 1)
    with pytest.raises(KafkaException):
        one.end(ClientInterval(0), is_commit=True)
