"""Reading pages and single messages while brokers fail, and at the bounds of a partition."""

from pathlib import Path
from typing import Any, Self

import pytest

from cluster.client.fetch_requests import Fetched
from cluster.dashboard.messages import reader
from cluster.dashboard.messages.asking import question
from cluster.dashboard.messages.paging import Range, Round
from cluster.dashboard.messages.reader import MessageReader
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, UserError
from cluster.records.builder import NewRecord, build_batch

LOST = "its leader, broker 2, does not answer: it closed the connection"


class Log:
    """Partitions 0 and 1 with offsets 5 to 7; the leader of 1 is lost after it told them."""

    partitions = (0, 1)

    def __init__(self, budget: Any) -> None:
        self.failed: dict[int, str] = {}
        self._budget = budget

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ranges(self, partitions: list[int]) -> dict[int, Range]:
        return dict.fromkeys(partitions, Range(5, 8))

    def offsets_at(self, partitions: list[int], _timestamp_ms: int) -> dict[int, int]:
        self.failed |= {number: LOST for number in partitions if number == 1}
        return {number: 6 for number in partitions if number != 1}

    def high_watermarks(self, partitions: list[int]) -> dict[int, int]:
        return {number: offset + 2 for number, offset in self.offsets_at(partitions, 0).items()}

    def fetch(self, offsets: dict[int, int]) -> Round:
        records = [NewRecord(b"v", timestamp_ms=number) for number in (5, 7)]
        content = bytearray(build_batch(records, base_offset=6))
        answers = {
            number: Fetched(number, ErrorCode.none, (), memoryview(content)) for number in offsets
        }
        return Round(answers)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MessageReader:
    monkeypatch.setattr(reader, "ask_supervisor", lambda *_: {"brokers": []})
    monkeypatch.setattr(reader, "TopicLog", lambda *given, **_: Log(given[4]))
    return MessageReader(DataDir(tmp_path))


@pytest.mark.parametrize(
    "options",
    [{"from": "2026-01-31T18:00Z"}, {"from": "beginning", "isolation": "read_committed"}],
)
def test_a_leader_lost_after_it_told_its_offsets_leaves_the_others(
    messages: MessageReader, options: dict[str, str]
) -> None:
    page = messages.page(question({"topic": "orders", "after": "0.6,1.5", **options}))
    assert [each["partition"] for each in page["messages"]] == [0, 0]
    assert page["notes"] == [f"Cannot read partition 1: {LOST}."]
    assert page["newer"] == "0.8,1.5"
    with pytest.raises(UserError, match="Cannot read partition 1: its leader"):
        messages.page(question({"topic": "orders", "partition": "1", **options}))


def test_one_message(messages: MessageReader) -> None:
    assert messages.one("orders", 0, 7).timestamp_ms == 7


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (4, "offset 4 is out of range: partition 0 of orders holds offsets 5 to 7"),
        (5, "partition 0 of orders has no record at offset 5: compaction has removed it"),
        (8, "offset 8 is out of range: partition 0 of orders holds offsets 5 to 7"),
        (2**63 - 1, "is out of range"),
    ],
)
def test_no_message_at_an_offset(messages: MessageReader, offset: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        messages.one("orders", 0, offset)
