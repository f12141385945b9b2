"""The route of users and access rules."""

from typing import Any

from cluster.dashboard.users.access_view import AccessFacts
from cluster.dashboard.users.routes import access_routes
from cluster.model.errors import UserError
from tests.support.page_requests import Page


class Recorded:
    def __init__(self) -> None:
        self.readings = 0

    def read(self) -> AccessFacts:
        self.readings += 1
        if self.readings > 1:
            raise UserError("cannot connect")
        return AccessFacts(super_users=["User:root"])

    def view(self, facts: AccessFacts, principal: str, resource: str) -> dict[str, Any]:
        return {"super": list(facts.super_users), "filters": [principal, resource]}


def test_filters_are_applied_to_a_reading_of_the_brokers() -> None:
    page = Page.of_parts(access_routes(Recorded()))
    query = {"principal": "<b>", "resource": "\u202e"}
    found = page.get("/api/access", params=query).json()
    assert found == {"super": ["User:root"], "filters": ["<b>", "\u202e"]}


def test_brokers_that_do_not_answer_are_told_in_one_line() -> None:
    source = Recorded()
    source.readings = 1
    answer = Page.of_parts(access_routes(source)).get("/api/access")
    assert (answer.status_code, answer.json()) == (409, {"error": "cannot connect"})
