"""The console consumer against a client that does what a test says."""

import argparse
import io
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError

from cluster.model.errors import UserError
from cluster.tools import consume
from cluster.tools.arguments import UsageError
from cluster.tools.consume import ConsoleConsumer
from cluster.tools.main import main
from cluster.tools.record_printer import RecordPrinter


class FakeMessage:
    """A value, or what a client says went wrong."""

    def __init__(self, value: bytes | None = None, error: KafkaError | None = None) -> None:
        self._value = value
        self._error = error

    def error(self) -> KafkaError | None:
        return self._error

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


class FakeConsumer:
    """Hands out its messages, then nothing."""

    def __init__(self, *messages: FakeMessage, topics: dict[str, object] | None = None) -> None:
        self._messages = list(messages)
        self._topics = topics or {}
        self.assigned: list[list[str]] = []

    def poll(self, timeout: float) -> FakeMessage | None:
        return self._messages.pop(0) if self._messages else None

    def assignment(self) -> list[str]:
        return ["orders-0"]

    def position(self, partitions: list[str]) -> list[str]:
        return [f"{each} at 7" for each in partitions]

    def assign(self, partitions: list[str]) -> None:
        self.assigned.append(partitions)

    def list_topics(self, topic: str | None = None, *, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics=self._topics)


def a_client(*messages: FakeMessage, topics: dict[str, object] | None = None) -> Any:
    return FakeConsumer(*messages, topics=topics)


def printed(*messages: FakeMessage, max_messages: int | None = None) -> tuple[bytes, int]:
    output = io.BytesIO()
    consumer = ConsoleConsumer(a_client(*messages), RecordPrinter.from_properties([]), output)
    consumer.print_records(max_messages, timeout_ms=0)
    return output.getvalue(), consumer.count


A, B = FakeMessage(b"a"), FakeMessage(b"b")


def test_records_are_printed_and_counted():
    assert printed(A, B) == (b"a\nb\n", 2)


def test_consume_stops_after_max_messages():
    assert printed(A, B, max_messages=1) == (b"a\n", 1)


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._PARTITION_EOF),
        KafkaError(KafkaError._ALL_BROKERS_DOWN),
        KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION, retriable=True),
    ],
)
def test_temporary_errors_of_the_client_are_ignored(error):
    assert printed(FakeMessage(error=error), A) == (b"a\n", 1)


def test_permanent_errors_of_the_client_are_raised():
    gone = FakeMessage(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic"))
    with pytest.raises(UserError, match=r"^Unknown topic$"):
        printed(gone, A)


def test_group_errors_are_ignored_when_the_consumer_is_in_no_group():
    denied = FakeMessage(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert printed(denied, A) == (b"a\n", 1)
    with pytest.raises(UserError, match="Group authorization failed"):
        as_member(denied, A)


def as_member(*messages: FakeMessage) -> tuple[int, list[list[str]]]:
    """How many records a member of a group prints, and what it assigns to its client."""
    client = a_client(*messages)
    printer = RecordPrinter.from_properties([])
    member = ConsoleConsumer(client, printer, io.BytesIO(), is_member=True)
    member.print_records(None, timeout_ms=0)
    return member.count, client.assigned


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE])
def test_consume_asks_for_offsets_again_when_librdkafka_got_none(code):
    assert as_member(FakeMessage(error=KafkaError(code)), A) == (1, [["orders-0 at 7"]])


def test_consume_keeps_its_assignment_after_a_temporary_error():
    assert as_member(FakeMessage(error=KafkaError(KafkaError._TRANSPORT)), A) == (1, [])


def assigned(partitions: list[int], error: KafkaError | None = None, **options: object) -> list:
    args = argparse.Namespace(
        **{
            "topic": "orders",
            "include": None,
            "group": None,
            "partition": None,
            "offset": None,
            "from_beginning": False,
            "command_properties": [],
            **options,
        }
    )
    topic = SimpleNamespace(partitions=dict.fromkeys(partitions), error=error)
    topics = consume.topics_of(a_client(topics={"orders": topic}), args)
    taken = consume.assignment_of(topics, args)
    return [(one.partition, one.offset) for one in taken]


def test_every_partition_is_taken_from_its_end():
    assert assigned([1, 0]) == [(0, OFFSET_END), (1, OFFSET_END)]


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        ({"from_beginning": True}, OFFSET_BEGINNING),
        ({"offset": "earliest"}, OFFSET_BEGINNING),
        ({"offset": "latest"}, OFFSET_END),
        ({"offset": 0}, 0),
        ({"offset": 42}, 42),
        ({"command_properties": [("auto.offset.reset", "earliest")]}, OFFSET_BEGINNING),
    ],
)
def test_consume_starts_at_the_chosen_offset(options, offset):
    assert assigned([0, 1, 2], partition=1, **options) == [(1, offset)]


def test_a_partition_that_there_is_not_is_named():
    with pytest.raises(UserError, match=r"topic orders has no partition 3: it has 2, from 0"):
        assigned([0, 1], partition=3)


def test_a_missing_topic_says_how_to_make_it():
    with pytest.raises(UserError, match=r"no topic orders: create it with .*topics create orders"):
        assigned([], KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


def test_a_topic_that_cannot_be_read_says_why():
    with pytest.raises(UserError, match=r"cannot read topic orders: Invalid topic"):
        assigned([], KafkaError(KafkaError.TOPIC_EXCEPTION, "Broker: Invalid topic"))


def included(pattern: str, group: str | None = None) -> dict[str, list[int]]:
    topics: dict[str, object] = {
        name: SimpleNamespace(partitions=dict.fromkeys([1, 0]), error=None)
        for name in ("orders", "orders2", "more-orders", "__consumer_offsets")
    }
    args = argparse.Namespace(topic=None, include=pattern, group=group)
    return consume.topics_of(a_client(topics=topics), args)


def test_a_pattern_takes_whole_names_and_nothing_internal():
    assert included("orders.?") == {"orders": [0, 1], "orders2": [0, 1]}
    assert list(included(".*")) == ["more-orders", "orders", "orders2"]
    assert included("none", group="g") == {}
    with pytest.raises(UserError, match="no topic has a name that matches none"):
        included("none")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--group", "g", "--topic", "t", "--partition", "1"], "--group does not go with"),
        (["--group", "g", "--topic", "t", "--offset", "1"], "--group does not go with"),
        (["--group", "", "--topic", "t"], "--group needs a name"),
        (["--include", "t", "--partition", "1"], "--include does not go with"),
        (["--include", "("], "not a regular expression"),
    ],
)
def test_options_that_do_not_go_together(words, reason, capsys):
    assert main(["consume", *words]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["(?i)orders", "(?P<name>o)rders"])
def test_a_pattern_that_only_python_knows_is_refused_with_a_group(pattern):
    client = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    with pytest.raises(UsageError, match="cannot be used with --group"):
        consume.subscribe(client, argparse.Namespace(topic=None, include=pattern))
    client.close()


def test_a_misspelt_property_is_wrong_usage(capsys):
    assert main(["consume", "--topic", "t", "--property", "print.keys=true"]) == 2
    assert "print.key," in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [[], ["--topic", "t", "--offset", "-3"], ["--topic", "t", "--offset", "1", "--from-beginning"]],
)
def test_options_that_cannot_be_read_are_status_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["consume", *words])
    assert ended.value.code == 2
