"""A message from the page: its record, its partition, and the command line that produces it."""

import shlex
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.client.partitioner import partition_of
from cluster.dashboard.http_requests import BadRequest
from cluster.dashboard.topics.new_message import NewMessage, new_message
from cluster.dashboard.topics.produce_command import produce_command
from cluster.records.builder import ProducerIdentity
from cluster.records.reader import read_records
from cluster.tools import produce
from cluster.tools.command_parser import CommandParser
from cluster.tools.line_reader import LineReader

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=12)
NASTY = st.one_of(TEXT, st.text(":=,|NUL0123", max_size=8))


def read_back(message: NewMessage) -> tuple[Any, Any]:
    """The record that the command line makes of its line, and the parsed options."""
    line = produce_command("bin/cluster", message)["command"]
    words = shlex.split(line)
    assert words[:2] == ["printf", "%s\\n"]
    assert words[3:6] == ["|", "bin/cluster", "produce"]
    parser = CommandParser()
    produce.add_parser(parser.add_subparsers())
    args = parser.parse_args(words[5:])
    return LineReader.from_properties(args.properties).read(words[2].encode(), 1), args


@given(
    key=st.none() | NASTY,
    value=st.none() | NASTY,
    headers=st.lists(st.tuples(NASTY.filter(bool), NASTY), max_size=3),
    partition=st.none() | st.integers(0, 5),
)
def test_the_command_line_produces_the_same_message(
    key: str | None, value: str | None, headers: list[tuple[str, str]], partition: int | None
) -> None:
    message = NewMessage("-orders.1", key, value, tuple(headers), partition)
    record, args = read_back(message)
    assert (args.topic, args.partition) == ("-orders.1", partition)
    assert record.key == (None if key is None else key.encode())
    assert record.value == (None if value is None else value.encode())
    assert record.headers == [(name, text.encode()) for name, text in headers]


def test_the_command_line_is_short_where_it_can_be() -> None:
    command = produce_command("milena", NewMessage("orders", None, "hello"))["command"]
    assert command == "printf '%s\\n' hello | milena produce --topic=orders"


@pytest.mark.parametrize("text", ["two\nlines", "\r", "\0"])
def test_no_command_line_is_told_for_what_is_no_line(text: str) -> None:
    for message in (
        NewMessage("t", text, ""),
        NewMessage("t", None, text),
        NewMessage("t", None, "", (("h", text),)),
    ):
        told = produce_command("milena", message)
        assert told["command"] is None
        assert told["reason"].startswith("No command line")


@pytest.mark.parametrize("is_key", [True, False])
def test_no_command_line_where_every_separator_occurs(is_key: bool) -> None:
    signs = map(chr, range(ord("!"), sys.maxunicode))
    text = "".join(each for each in signs if each.isprintable() and not each.isalnum())
    headers = () if is_key else (("h", text),)
    told = produce_command("milena", NewMessage("t", text if is_key else None, "v", headers))
    assert told == {
        "command": None,
        "reason": "No command line produces this: it holds every character that could separate its"
        " parts on a line. Send it from this page, or from a program.",
    }


def test_the_batch_has_the_record() -> None:
    message = NewMessage("t", "ключ", None, (("h", "v"), ("h", "")))
    (record,) = read_records(memoryview(message.batch(1_234, ProducerIdentity())))
    assert (record.key, record.value, record.timestamp_ms) == ("ключ".encode(), None, 1_234)
    assert tuple(record.headers) == (("h", b"v"), ("h", b""))


def test_the_partition_is_chosen_by_the_key_unless_one_is_given() -> None:
    assert NewMessage("t", "k", "", (), 3).chosen_partition(7, 5) == 3
    assert NewMessage("t", "k", "").chosen_partition(7, 5) == partition_of(b"k", 7)
    assert NewMessage("t", None, "").chosen_partition(7, 12) == 5


VALID: dict[str, Any] = {"topic": "t", "key": None, "value": "v", "headers": [["a", "b"]]}


def test_a_message_is_read_from_a_request() -> None:
    assert new_message(VALID) == NewMessage("t", None, "v", (("a", "b"),), None)
    assert new_message({"topic": "t", "partition": 0}) == NewMessage("t", None, None, (), 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": ""},
        {"topic": "t" * 250},
        {"topic": 5},
        {"key": 5},
        {"value": ["v"]},
        {"headers": {"a": "b"}},
        {"headers": [["", "b"]]},
        {"headers": [["a", None]]},
        {"headers": [["a"]]},
        {"partition": True},
        {"partition": -1},
        {"partition": 1 << 31},
        {"partition": "1"},
    ],
)
def test_a_request_that_is_no_message_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        new_message(VALID | changes)
