"""The routes of transactions: what they ask of the source, and what they refuse."""

from typing import Any

import pytest

from cluster.dashboard.sources import Done
from cluster.dashboard.transactions.routes import transaction_routes
from cluster.model.errors import UserError
from tests.support.page_requests import Page, post

NASTY = "</script>\n\u202e'\""


class Recorded:
    """One transactional id, and what was ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[Any, ...]] = []
        self.readings = 0
        self.problems: list[str] = []

    def transactions(self, search: str = "") -> dict[str, Any]:
        self.readings += 1
        return {"search": search, "problems": self.problems}

    def explain(self, transactional_id: str) -> dict[str, Any]:
        if transactional_id == "gone":
            raise UserError("there is no transactional id 'gone'")
        return {"sentence": transactional_id}

    def terminate_preview(self, transactional_id: str) -> dict[str, Any]:
        return {"question": transactional_id}

    def abort_preview(self, topic: str, partition: int, offset: int) -> dict[str, Any]:
        return {"place": [topic, partition, offset]}

    def terminate(self, transactional_id: str) -> Done:
        self.ended.append((transactional_id,))
        return Done("ended", "bin/cluster")

    def abort(self, topic: str, partition: int, offset: int) -> Done:
        self.ended.append((topic, partition, offset))
        return Done("aborted", "bin/cluster")


@pytest.fixture
def source() -> Recorded:
    return Recorded()


@pytest.fixture
def page(source: Recorded) -> Page:
    return Page.of_parts(transaction_routes(source))


def test_transactions_are_listed_and_filtered_by_the_source(page: Page) -> None:
    assert page.get("/api/transactions").json()["search"] == ""
    found = page.get("/api/transactions", params={"search": NASTY}).json()
    assert found["search"] == NASTY


def test_an_id_is_explained_or_refused_in_one_line(page: Page) -> None:
    path = "/api/transactions/explain"
    assert page.get(path, params={"transactional_id": NASTY}).json() == {"sentence": NASTY}
    gone = page.get(path, params={"transactional_id": "gone"})
    assert gone.status_code == 409
    assert gone.json() == {"error": "there is no transactional id 'gone'"}
    assert page.get(path).status_code == 400


def test_terminating_needs_the_token_and_is_described_before(page: Page, source: Recorded) -> None:
    path = "/api/transactions/terminate"
    assert page.get(path, params={"transactional_id": NASTY}).json() == {"question": NASTY}
    assert page.post(path, json={"transactional_id": NASTY}).status_code == 403
    assert source.ended == []
    told = post(page, path, {"transactional_id": NASTY})
    assert told.json() == {"text": "ended", "command": "bin/cluster"}
    assert source.ended == [(NASTY,)]


def test_a_hanging_transaction_is_named_by_its_place(page: Page, source: Recorded) -> None:
    path, place = "/api/transactions/abort", {"topic": "t", "partition": 0, "offset": 2**53 + 1}
    assert page.get(path, params=place).json() == {"place": ["t", 0, 2**53 + 1]}
    assert post(page, path, place).status_code == 200
    assert source.ended == [("t", 0, 2**53 + 1)]


@pytest.mark.parametrize(
    "place",
    [
        {"topic": "", "partition": 0, "offset": 0},
        {"topic": "t", "partition": -1, "offset": 0},
        {"topic": "t", "partition": 0, "offset": 1.5},
        {"topic": "t", "partition": 0, "offset": 2**63},
        {"topic": "t", "partition": 0, "offset": "9" * 5_000},
        {"topic": "t", "partition": 0, "offset": "0" * 5_000},
        {"topic": "t", "partition": True, "offset": 0},
        {"topic": "t", "partition": 0},
        {"topic": 5, "partition": 0, "offset": 0},
    ],
)
def test_a_place_that_cannot_be_is_refused(
    page: Page, source: Recorded, place: dict[str, Any]
) -> None:
    assert post(page, "/api/transactions/abort", place).status_code == 400
    assert post(page, "/api/transactions/terminate", place).status_code == 400
    assert source.ended == []


def test_a_change_is_seen_in_the_next_list(page: Page, source: Recorded) -> None:
    page.get("/api/transactions")
    post(page, "/api/transactions/terminate", {"transactional_id": "x"})
    page.get("/api/transactions")
    assert source.readings == 2


def test_a_reading_that_a_broker_delayed_is_not_kept(page: Page, source: Recorded) -> None:
    source.problems = ["Broker 1 does not answer."]
    assert page.get("/api/transactions").json()["problems"] == source.problems
    source.problems = []
    assert page.get("/api/transactions").json()["problems"] == []
