"""Routes of the message browser: what they ask for, and the words of their refusals."""

from typing import Any

import pytest

from cluster.client.fetch_requests import Fetched
from cluster.dashboard.messages.asking import Question, question
from cluster.dashboard.messages.batches import Message, batches_in
from cluster.dashboard.messages.paging import Page, Range
from cluster.dashboard.messages.routes import message_routes
from cluster.dashboard.messages.rows import failures, held_text, open_transactions, page_json
from cluster.model.errors import ErrorCode, UserError
from cluster.records.builder import NewRecord, build_batch
from tests.support.page_requests import Page as Browser
from tests.support.page_requests import rules

NASTY = b'<img src=x onerror="alert(1)">'


def message(key: bytes | None, value: bytes | None) -> Message:
    content = memoryview(bytes(build_batch([NewRecord(value, key, 5)], base_offset=7)))
    (batch,) = batches_in(Fetched(0, ErrorCode.none, (), content))
    return next(batch.messages())


class Topic:
    """One topic with one message."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.failure: str | None = None
        self.message = message(b"\xff\x00", NASTY)

    def page(self, question: Question) -> dict[str, Any]:
        self.asked.append(question)
        if self.failure is not None:
            raise UserError(self.failure)
        return {"messages": []}

    def one(self, topic: str, partition: int, offset: int) -> Message:
        return self.message


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def browser(topic: Topic) -> Browser:
    return Browser.of_parts(message_routes(topic), rules(may_change=False))


def test_a_page_is_asked_for(topic: Topic, browser: Browser) -> None:
    query = {"topic": "a b", "partition": "3", "from": "17", "filter": "é", "limit": "20"}
    assert browser.get("/api/messages", params=query).json() == {"messages": []}
    (asked,) = topic.asked
    assert (asked.topic, asked.partition, asked.start.value) == ("a b", 3, 17)
    assert (asked.needle, asked.limit) == ("é", 20)


def test_refusals_are_one_line(topic: Topic, browser: Browser) -> None:
    answer = browser.get("/api/messages", params={"topic": "a", "limit": "7"})
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "limit is one of 50, 20, 100, 200, not 7",
        "field": "limit",
    }
    topic.failure = "there is no topic a"
    answer = browser.get("/api/messages", params={"topic": "a"})
    assert (answer.status_code, answer.json()) == (409, {"error": "there is no topic a"})


def test_bytes_are_downloaded_and_never_shown(browser: Browser) -> None:
    where = {"topic": "a/../b", "partition": "0", "offset": "7"}
    answer = browser.get("/api/messages/raw", params=where)
    assert answer.content == NASTY
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    named = answer.headers["content-disposition"]
    assert named == 'attachment; filename="a_.._b-0-7.value"'
    assert browser.get("/api/messages/raw", params={**where, "part": "key"}).content == b"\xff\x00"


def test_one_message_is_text_or_bytes(topic: Topic, browser: Browser) -> None:
    where = {"topic": "a", "partition": "0", "offset": "7"}
    found = browser.get("/api/messages/one", params=where).json()
    assert (found["offset"], found["value"]["kind"]) == ("7", "text")
    assert found["value"]["text"] == NASTY.decode()
    found = browser.get("/api/messages/one", params={**where, "as": "hex"}).json()
    assert found["value"]["text"].startswith("00000000  3c 69 6d 67")
    topic.message = topic.message._replace(value=None)
    assert browser.get("/api/messages/raw", params=where).content == b""


def page_of(resume: dict[int, int], **options: Any) -> dict[str, Any]:
    asked = question({"topic": "a", **options.pop("asked", {})})
    edge = options.pop("edge", {0: 10})
    ranges = {0: Range(5, 10)}
    page = Page([message(None, None)], resume, options.pop("stopped", None), {})
    return page_json(asked, ranges, edge, page, {}, [], 1)


def test_neighbors_of_a_page() -> None:
    newest = page_of({0: 8})
    assert (newest["older"], newest["newer"], newest["has_newer"]) == ("0.8", "0.10", False)
    assert page_of({0: 5})["older"] is None
    first = page_of({0: 7}, asked={"from": "beginning"}, edge={0: 5})
    assert (first["older"], first["newer"], first["has_newer"]) == (None, "0.7", True)
    kept = page_of({0: 7}, asked={"before": "0.9,1.4"}, edge={0: 9})
    assert (kept["older"], kept["newer"]) == ("0.7,1.4", "0.9,1.4")


def test_a_page_says_where_it_stopped() -> None:
    assert (
        page_of({0: 8}, stopped="5 s")["stopped"] == "Stopped after 5 s at offset 8 of partition 0."
    )
    stuck = page_of({0: 10}, stopped="5 s")["stopped"]
    assert stuck == "Stopped after 5 s within one batch: read on from an offset before it."


def test_the_text_on_what_partitions_hold_counts_offsets() -> None:
    assert held_text({0: Range(3, 4), 1: Range(7, 7)}) == "2 partitions hold 1 offset."
    assert held_text({0: Range(3, 4), 1: Range(7, 9)}) == "2 partitions hold 3 offsets."
    assert held_text({0: Range(3, 3), 1: Range(7, 7)}) == "2 partitions hold no record."


def test_failures_name_partitions_by_reason() -> None:
    failed = {**dict.fromkeys(range(8), "no answer"), 9: "it has no leader at present"}
    assert failures(failed) == [
        "Cannot read partitions 0, 1, 2, 3, 4 and 3 more: no answer.",
        "Cannot read partition 9: it has no leader at present.",
    ]


def test_open_transactions_are_named() -> None:
    ranges = {0: Range(0, 10), 1: Range(0, 5)}
    assert open_transactions(ranges, {0: 10}) == []
    assert open_transactions(ranges, {0: 14, 1: 6}) == [
        "Not read, since a transaction is open: offsets 10 to 13 of partition 0,"
        " 5 to 5 of partition 1."
    ]
