"""`produce --transactional-id` against a client that does what a test says."""

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cluster.model.errors import UserError
from cluster.tools.line_reader import LineReader
from cluster.tools.main import main
from cluster.tools.produce import ConsoleProducer
from cluster.tools.produce_transactions import LineTransactions

VALUES = LineReader.from_properties([])
KEYED = LineReader.from_properties([("parse.key", "true"), ("key.separator", ":")])
FENCED = KafkaError(KafkaError.PRODUCER_FENCED, fatal=True)
ABORTABLE = KafkaError(KafkaError.TRANSACTION_ABORTABLE, txn_requires_abort=True)
LATER = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, retriable=True)


class FakeClient:
    """Notes what is asked of it; each operation fails with the errors that are listed for it."""

    def __init__(self, failing: bytes = b"bad", **errors: list[KafkaError]) -> None:
        self.course: list[str] = []
        self._failing = failing
        self._errors = errors
        self._waiting: list[tuple[bytes, Callable[..., None]]] = []

    def _do(self, what: str) -> None:
        self.course.append(what)
        if self._errors.get(what):
            raise KafkaException(self._errors[what].pop(0))

    def init_transactions(self, _timeout: float) -> None:
        self._do("init")

    def begin_transaction(self) -> None:
        self._do("begin")

    def commit_transaction(self, _timeout: float) -> None:
        assert not self._waiting
        self._do("commit")

    def abort_transaction(self, _timeout: float) -> None:
        self._do("abort")

    def produce(self, _topic: str, value: bytes, on_delivery: Any, **_rest: Any) -> None:
        self.course.append(value.decode())
        self._waiting.append((value, on_delivery))

    def poll(self, _timeout: float) -> int:
        return 0

    def flush(self, _timeout: float) -> int:
        done, self._waiting = self._waiting, []
        for value, on_delivery in done:
            if value == self._failing:
                on_delivery(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
        return 0

    def __len__(self) -> int:
        return len(self._waiting)


def sent(
    client: FakeClient, lines: Any, size: int | None = None, reader: LineReader = VALUES
) -> ConsoleProducer:
    """A producer that has sent these lines to the end."""
    made: Any = client
    transactions = LineTransactions(made, "import-1", size)
    transactions.start()
    producer = ConsoleProducer(made, "orders", is_sync=False, transactions=transactions)
    producer.send_all(reader, lines)
    producer.finish()
    return producer


def test_all_lines_are_one_transaction() -> None:
    client = FakeClient()
    assert sent(client, [b"a\n", b"b\n"]).failure_count == 0
    assert client.course == ["init", "begin", "a", "b", "commit"]


def test_a_size_ends_transactions_and_the_rest_is_the_last() -> None:
    client = FakeClient()
    sent(client, [b"a\n", b"b\n", b"c\n"], size=2)
    assert client.course == ["init", "begin", "a", "b", "commit", "begin", "c", "commit"]


def test_without_lines_nothing_begins() -> None:
    client = FakeClient()
    assert sent(client, []).failure_count == 0
    assert client.course == ["init"]


def test_a_record_that_fails_aborts_its_transaction_and_ends_the_input(capsys) -> None:
    client = FakeClient()
    producer = sent(client, [b"a\n", b"bad\n", b"c\n", b"d\n"], size=2)
    assert client.course == ["init", "begin", "a", "bad", "abort"]
    assert producer.failure_count == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: line 2 was not delivered: Message size too large",
        "error: the transaction of lines 1 to 2 was aborted",
        "error: line 3 and those after it were not sent",
    ]


def test_a_line_that_cannot_be_read_aborts_the_transaction(capsys) -> None:
    client = FakeClient()
    sent(client, [b"k:a\n", b"b\n"], reader=KEYED)
    assert client.course == ["init", "begin", "a", "abort"]
    assert "the transaction of line 1 was aborted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("errors", "ends", "said"),
    [
        ([LATER, LATER], ["commit", "commit", "commit"], ""),
        ([ABORTABLE], ["commit", "abort"], "the transaction of line 1 was aborted: "),
        ([FENCED], ["commit"], "the transaction of line 1 was not committed: "),
    ],
)
def test_a_commit_is_repeated_aborted_or_given_up(errors, ends, said, capsys) -> None:
    client = FakeClient(commit=errors)
    producer = sent(client, [b"a\n"])
    assert client.course[3:] == ends
    assert producer.failure_count == (1 if said else 0)
    assert said in capsys.readouterr().err


def test_a_commit_that_is_repeated_for_too_long_may_have_succeeded(monkeypatch, capsys) -> None:
    seconds = count(0, 40)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    client = FakeClient(commit=[LATER] * 9)
    assert sent(client, [b"a\n"]).failure_count == 1
    assert "the transaction of line 1 may not be committed" in capsys.readouterr().err


def test_an_abort_that_fails_is_told(capsys) -> None:
    sent(FakeClient(abort=[FENCED]), [b"bad\n"])
    assert "was not committed, and the abort failed" in capsys.readouterr().err


def test_an_id_that_cannot_be_used_is_a_line() -> None:
    with pytest.raises(UserError, match="transactional id 'import-1' cannot be used"):
        sent(FakeClient(init=[FENCED]), [])


def test_an_interrupt_aborts_the_open_transaction(capsys) -> None:
    client: Any = FakeClient()
    transactions = LineTransactions(client, "import-1", None)
    producer = ConsoleProducer(client, "orders", is_sync=False, transactions=transactions)

    def lines() -> Iterator[bytes]:
        yield b"a\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        producer.send_all(VALUES, lines())
    producer.give_up()
    assert client.course == ["begin", "a", "abort"]
    assert "interrupted: the transaction of line 1 was aborted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transaction-size", "2"], "--transaction-size needs --transactional-id"),
        (["--transactional-id", ""], "--transactional-id cannot be empty"),
        (
            ["--transactional-id", "x", "--request-required-acks", "1"],
            "needs acknowledgment by all replicas",
        ),
        (["--transactional-id", "x", "--producer-property", "acks=0"], "by all replicas"),
    ],
)
def test_contradictory_options_are_wrong_usage(words, said, capsys) -> None:
    assert main(["produce", "--topic", "t", *words]) == 2
    assert said in capsys.readouterr().err
