"""Pages of messages: nothing is skipped or repeated, whatever the logs look like."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.client.fetch_requests import Fetched
from cluster.dashboard.messages.batches import Message
from cluster.dashboard.messages.budget import Budget
from cluster.dashboard.messages.paging import (
    BackwardLane,
    Lane,
    OnwardLane,
    Page,
    Range,
    Round,
    read_page,
)
from cluster.model.errors import ErrorCode
from cluster.records.batch import batches_of
from cluster.records.builder import batch_at_offsets
from cluster.records.reader import Record

Place = tuple[int, int]


class Logs:
    """Partitions in memory, which answer with few batches at a time."""

    def __init__(self, partitions: Mapping[int, list[list[Record]]], batches: int = 1) -> None:
        self.ranges = {}
        self._batches = batches
        self._contents: dict[int, list[tuple[int, bytes]]] = {}
        for number, runs in partitions.items():
            content = [bytes(batch_at_offsets(run)) for run in runs]
            self._contents[number] = [
                (header.last_offset, each)
                for each in content
                for header, _ in batches_of(memoryview(each))
            ]
            end = runs[-1][-1].offset + 1 if runs else 0
            self.ranges[number] = Range(0, end)
        self.fetches = 0

    def fetch(self, offsets: Mapping[int, int]) -> Round:
        self.fetches += 1
        answers = {}
        room = self._batches
        for number, offset in offsets.items():
            left = [content for last, content in self._contents[number] if last >= offset][:room]
            room -= len(left)
            answers[number] = Fetched(number, ErrorCode.none, (), memoryview(b"".join(left)))
        return Round(answers)


def endless() -> Budget:
    return Budget(lambda: 0.0, records=10**9, size_bytes=10**12)


def page_from(
    logs: Logs, edge: Mapping[int, int], limit: int, backward: bool, wants: Any, budget: Budget
) -> Page:
    lanes: list[Lane] = []
    for number, (start, end) in logs.ranges.items():
        if backward:
            lanes.append(BackwardLane(number, edge[number], start, limit))
        else:
            lanes.append(OnwardLane(number, edge[number], end, limit))
    return read_page(logs, lanes, wants, budget, limit=limit, is_backward=backward)


def places(page: Page) -> list[Place]:
    return [(each.partition, each.offset) for each in page.messages]


@st.composite
def partitions(draw: Any) -> dict[int, list[list[Record]]]:
    """Batches whose offsets have gaps, as compaction leaves them, and any timestamps."""
    found = {}
    for number in range(draw(st.integers(1, 3))):
        offset = 0
        runs = []
        for _ in range(draw(st.integers(0, 5))):
            run = []
            for _ in range(draw(st.integers(1, 4))):
                offset += draw(st.sampled_from([0, 0, 0, 1, 7, 500]))
                value = draw(st.sampled_from([b"yes", b"no", None]))
                run.append(Record(offset, draw(st.integers(-1, 30)), b"k", value))
                offset += 1
            runs.append(run)
        found[number] = runs
    return found


def is_wanted(message: Message) -> bool:
    return message.value != b"no"


@given(partitions(), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(1, 3))
def test_pages_neither_skip_nor_repeat(
    runs: dict[int, list[list[Record]]], limit: int, backward: bool, small: bool, batches: int
) -> None:
    logs = Logs(runs, batches)
    wanted = {
        (number, record.offset)
        for number, those in runs.items()
        for run in those
        for record in run
        if record.value != b"no"
    }
    edge = {number: end if backward else start for number, (start, end) in logs.ranges.items()}
    found: list[Place] = []
    for _ in range(1_000):
        budget = Budget(lambda: 0.0, records=5, size_bytes=10**9) if small else endless()
        page = page_from(logs, edge, limit, backward, is_wanted, budget)
        assert len(page.messages) <= limit
        if page.stopped is None and len(page.messages) < limit:
            assert all(
                page.resume[number] == (known.start if backward else known.end)
                for number, known in logs.ranges.items()
            )
        found += places(page)
        if page.resume == edge:
            break
        # The way back shows the same messages.
        back = page_from(logs, page.resume, 10**6, not backward, is_wanted, endless())
        assert set(places(page)) <= set(places(back))
        edge = dict(page.resume)
    assert sorted(found) == sorted(wanted)
    assert len(found) == len(set(found))


@given(partitions(), st.integers(1, 6))
def test_the_former_page_ends_where_a_page_begins(
    runs: dict[int, list[list[Record]]], limit: int
) -> None:
    logs = Logs(runs)
    edge = {number: start for number, (start, _) in logs.ranges.items()}
    forward = page_from(logs, edge, limit, False, is_wanted, endless())
    second = page_from(logs, forward.resume, limit, False, is_wanted, endless())
    back = page_from(logs, forward.resume, limit, True, is_wanted, endless())
    assert not set(places(back)) & set(places(second))
    assert set(places(back)) <= set(places(forward)) or len(forward.messages) < limit


@given(partitions(), st.booleans())
def test_partitions_are_merged_by_time_and_keep_their_order(
    runs: dict[int, list[list[Record]]], backward: bool
) -> None:
    ordered = {
        number: [[record._replace(timestamp_ms=record.offset) for record in run] for run in those]
        for number, those in runs.items()
    }
    logs = Logs(ordered)
    edge = {number: end if backward else start for number, (start, end) in logs.ranges.items()}
    page = page_from(logs, edge, 10**6, backward, lambda _: True, endless())
    times = [each.timestamp_ms for each in page.messages]
    assert times == sorted(times, reverse=backward)


def test_sparse_records_before_an_offset_are_found_in_few_reads() -> None:
    last = 10_000_000
    logs = Logs({0: [[Record(3, 1, None, b"first")], [Record(last, 2, None, b"last")]]})
    edge = {0: last + 1}
    page = page_from(logs, edge, 50, True, lambda _: True, endless())
    assert places(page) == [(0, last), (0, 3)]
    assert logs.fetches < 40


def test_large_records_are_read_backward_in_smaller_windows() -> None:
    runs = [[Record(offset, offset, None, b"x" * 1_000_000)] for offset in range(40)]
    logs = Logs({0: runs})
    budget = endless()
    page = page_from(logs, {0: 40}, 20, True, lambda _: True, budget)
    assert [offset for _, offset in places(page)] == [*range(39, 19, -1)]
    assert all(upper > lower for (_, upper), (_, lower) in pairwise(places(page)))


def test_a_page_that_takes_too_long_has_what_it_found_and_goes_on_there() -> None:
    clock = iter(range(10_000))
    logs = Logs({0: [[Record(offset, 0, None, b"no")] for offset in range(100)]})
    budget = Budget(lambda: float(next(clock)), seconds=20)
    page = page_from(logs, {0: 0}, 50, False, is_wanted, budget)
    assert page.stopped == "20 s"
    assert 0 < page.resume[0] < 100
    assert budget.records == page.resume[0]


def test_a_partition_that_cannot_be_read_does_not_stop_the_others() -> None:
    logs = Logs({0: [[Record(0, 0, None, b"a")]], 1: [[Record(0, 0, None, b"b")]]})

    class OneFails:
        def fetch(self, offsets: Mapping[int, int]) -> Round:
            answers, _ = logs.fetch({number: each for number, each in offsets.items() if number})
            return Round(answers, {0: "no answer"} if 0 in offsets else {})

    lanes: list[Lane] = [OnwardLane(number, 0, 1, 9) for number in (0, 1)]
    page = read_page(OneFails(), lanes, is_wanted, endless(), limit=9, is_backward=False)
    assert places(page) == [(1, 0)]
    assert page.failed == {0: "no answer"}
    assert page.resume == {0: 0, 1: 1}


@pytest.mark.parametrize("offset", [4, 6, 7])
def test_a_damaged_batch_is_shown_once_from_an_offset_within_it(offset: int) -> None:
    run = [Record(each, 0, None, b"x") for each in range(4, 8)]
    content = bytearray(batch_at_offsets(run))
    content[-1] ^= 1

    class OneDamaged:
        def fetch(self, offsets: Mapping[int, int]) -> Round:
            records = memoryview(bytes(content) if offsets[0] < 8 else b"")
            return Round({0: Fetched(0, ErrorCode.none, (), records)})

    def page(start: int) -> Page:
        lanes: list[Lane] = [OnwardLane(0, start, 9, 1)]
        return read_page(OneDamaged(), lanes, is_wanted, endless(), limit=1, is_backward=False)

    first = page(offset)
    assert [(each.kind, each.offset) for each in first.messages] == [("damaged", 4)]
    assert page(first.resume[0]).messages == []


def test_bytes_that_are_no_batch_are_a_failure_of_the_partition() -> None:
    class Damaged:
        def fetch(self, offsets: Mapping[int, int]) -> Round:
            return Round({0: Fetched(0, ErrorCode.none, (), memoryview(b"\x01" * 200))})

    lanes: list[Lane] = [OnwardLane(0, 0, 5, 9)]
    page = read_page(Damaged(), lanes, is_wanted, endless(), limit=9, is_backward=False)
    assert list(page.failed) == [0]
    assert "no record batch v2" in page.failed[0]
