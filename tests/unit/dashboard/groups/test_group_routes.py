"""The routes of groups: parameters, refusals, readings that are shared and take turns."""

import asyncio
import threading
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest

from cluster.dashboard.access import AccessRules
from cluster.dashboard.app import make_app
from cluster.dashboard.groups.routes import group_routes
from cluster.dashboard.groups.source import Reset
from cluster.dashboard.sources import Done
from cluster.model.errors import UserError
from cluster.views.groups.new_offsets import Target

TOKEN = "token"
NASTY = '<b>"group"</b> / ?#'


class Recorded:
    """A source that knows one group, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.is_reached = threading.Event()
        self.hang = threading.Event()
        self.hang.set()

    def listed(self) -> dict[str, Any]:
        return {"groups": [], "left_out": 0}

    def group(self, group: str) -> dict[str, Any]:
        self.asked.append(group)
        self.is_reached.set()
        if group == "hung":
            assert self.hang.wait(60)
        if group == "unknown":
            raise UserError("there is no group unknown")
        return {"group": group}

    def explained(self, group: str) -> dict[str, Any]:
        return {"sentence": group}

    def series(self, group: str, name: str, since_ms: int, since_event: int) -> dict[str, Any]:
        return {"of": [group, name, since_ms, since_event]}

    def preview(self, reset: Reset) -> dict[str, Any]:
        return {"target": reset.target.value, "amount": reset.amount}

    def reset(self, reset: Reset) -> Done:
        self.asked.append(reset)
        return Done("set", "milena groups")


@pytest.fixture
def source() -> Recorded:
    return Recorded()


async def request(source: Recorded, *requests: dict[str, Any]) -> list[httpx.Response]:
    """The answers to requests that are sent at once."""
    rules = AccessRules(hosts=frozenset({"127.0.0.1"}), token=TOKEN)
    app = make_app(MagicMock(), rules, group_routes(source))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9292"
    ) as client:
        return await asyncio.gather(
            *(client.request(**{"method": "GET", **each}) for each in requests)
        )


def get(source: Recorded, path: str, **params: Any) -> httpx.Response:
    (answer,) = asyncio.run(request(source, {"url": f"/api/groups{path}", "params": params}))
    return answer


def post(source: Recorded, body: Any, token: str = TOKEN) -> httpx.Response:
    sent = {"json": body, "headers": {"x-milena-token": token}}
    (answer,) = asyncio.run(request(source, {"method": "POST", "url": "/api/groups/reset", **sent}))
    return answer


def test_names_of_groups_are_data_whatever_they_contain(source: Recorded) -> None:
    assert get(source, "/one", group=NASTY).json() == {"group": NASTY}
    assert get(source, "/explained", group="").json() == {"sentence": ""}
    assert get(source, "").json() == {"groups": [], "left_out": 0}


def test_an_unknown_group_is_reported_in_one_line(source: Recorded) -> None:
    answer = get(source, "/one", group="unknown")
    assert (answer.status_code, answer.json()) == (409, {"error": "there is no group unknown"})
    assert get(source, "/one").status_code == 400


def test_series_are_of_a_known_range(source: Recorded) -> None:
    found = get(source, "/series", group="g", range="15m", since_ms="7", since_event="2")
    assert found.json() == {"of": ["g", "15m", 7, 2]}
    assert get(source, "/series", group="g", range="7d").status_code == 400
    assert get(source, "/series", group="g", range="15m", since_ms="nan").status_code == 400


def test_a_reset_is_previewed_and_then_carried_out(source: Recorded) -> None:
    reset = {"group": "g", "target": "shift-by", "amount": "-5"}
    assert get(source, "/reset", **reset).json() == {"target": "shift-by", "amount": -5}
    assert source.asked == []
    assert post(source, reset).json() == {"text": "set", "command": "milena groups"}
    assert source.asked == [Reset("g", Target.SHIFT, -5)]
    assert get(source, "/reset", group="g", target="to-the-moon").status_code == 400


def test_a_reset_needs_the_token(source: Recorded) -> None:
    assert post(source, {"group": "g", "target": "to-latest"}, "other").status_code == 403
    assert post(source, ["g"]).status_code == 400
    assert source.asked == []


def test_pages_that_show_the_same_group_share_one_reading(source: Recorded) -> None:
    same = {"url": "/api/groups/one", "params": {"group": "g"}}
    answers = asyncio.run(request(source, *[same] * 5))
    assert [each.json() for each in answers] == [{"group": "g"}] * 5
    assert source.asked == ["g"]


def test_groups_take_turns_and_one_that_hangs_holds_up_few(source: Recorded) -> None:
    async def story() -> None:
        source.hang.clear()
        names = ["hung", *(f"g{number}" for number in range(6))]
        asked = [{"url": "/api/groups/one", "params": {"group": name}} for name in names]
        asked.append({"url": "/api/groups/explained", "params": {"group": "hung"}})
        answering = asyncio.create_task(request(source, *asked))
        await asyncio.to_thread(source.is_reached.wait, 60)
        reached = list(source.asked)
        source.hang.set()
        assert reached == ["hung"]
        answers = await answering
        busy = [each for each in answers if each.status_code == 503]
        assert [each.json()["error"] for each in busy] == [
            "others are waiting for their group: try again soon"
        ] * len(busy)
        assert len(busy) == 3
        assert answers[-1].json() == {"sentence": "hung"}

    asyncio.run(story())
