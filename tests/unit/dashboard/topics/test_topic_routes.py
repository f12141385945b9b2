"""The routes of topics: what they pass on, share and refuse."""

import asyncio
from typing import Any

import httpx
from starlette.applications import Starlette

from cluster.dashboard.one_at_a_time import WAITING_MAX
from cluster.dashboard.topics.new_message import NewMessage
from cluster.dashboard.topics.routes import topic_routes


class Recorded:
    """Topics that record what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.written: list[NewMessage] = []
        self.at_once = 0
        self.most_at_once = 0

    def topics(self) -> dict[str, Any]:
        return {"topics": []}

    def topic(self, name: str) -> dict[str, Any]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.asked.append(name)
        self.at_once -= 1
        return {"name": name}

    def produce(self, message: NewMessage) -> dict[str, Any]:
        self.written.append(message)
        return {"partition": 0, "offset": 7}

    def produce_command(self, message: NewMessage) -> dict[str, Any]:
        return {"command": f"produce {message.topic}"}


def answers(source: Recorded, *requests: tuple[str, str, Any]) -> list[httpx.Response]:
    """The answers to requests that are sent at once."""

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(Starlette(routes=topic_routes(source)))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            sent = [client.request(method, path, json=body) for method, path, body in requests]
            return await asyncio.gather(*sent)

    return asyncio.run(ask())


def test_pages_share_the_reading_of_a_topic_and_topics_take_turns() -> None:
    source = Recorded()
    paths = [f"/api/topic?name=t{number}" for number in range(WAITING_MAX)]
    found = answers(source, *(("GET", path, None) for path in paths + paths))
    assert [each.json()["name"] for each in found] == [*("t0", "t1", "t2"), *("t0", "t1", "t2")]
    assert sorted(source.asked) == ["t0", "t1", "t2"]
    assert source.most_at_once == 1


def test_a_message_is_passed_on_and_the_topic_read_again() -> None:
    source = Recorded()
    body = {"topic": "orders", "key": "k", "value": None, "headers": []}
    found = answers(
        source,
        ("POST", "/api/topic/produce", body),
        ("POST", "/api/topic/produce/command", body),
        ("GET", "/api/topics", None),
    )
    assert [each.json() for each in found] == [
        {"partition": 0, "offset": 7},
        {"command": "produce orders"},
        {"topics": []},
    ]
    assert source.written == [NewMessage("orders", "k", None)]
