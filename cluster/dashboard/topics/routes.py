"""The routes of topics."""

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cluster.dashboard.http_requests import NO_STORE, json_body, query_of
from cluster.dashboard.one_at_a_time import OneAtATime
from cluster.dashboard.shared_reading import SharedReading
from cluster.dashboard.topics.new_message import new_message
from cluster.dashboard.topics.sources import TopicSource

_MESSAGE_MAX_BYTES: Final = 8 << 20
"""A request with a message: its JSON may be several times as large as the message."""
_KEPT_MAX: Final = 16
"""Topics whose last reading is kept for other pages."""


def topic_routes(source: TopicSource) -> list[Route]:
    """The routes; they read and write through `source` alone."""
    routes = _Routes(source)
    return [
        Route("/api/topics", routes.all),
        Route("/api/topic", routes.one),
        Route("/api/topic/produce", routes.produce, methods=["POST"]),
        Route("/api/topic/produce/command", routes.produce_command, methods=["POST"]),
    ]


class _Routes:
    def __init__(self, source: TopicSource) -> None:
        self._source = source
        self._all = SharedReading(source.topics)
        self._by_name: OrderedDict[str, SharedReading] = OrderedDict()
        self._reading = OneAtATime("topic")
        self._writing = OneAtATime("message")

    async def all(self, _request: Request) -> Response:
        return JSONResponse(await self._all.get(), headers=NO_STORE)

    async def one(self, request: Request) -> Response:
        return JSONResponse(await self._shared(query_of(request, "name")).get(), headers=NO_STORE)

    def _shared(self, name: str) -> SharedReading:
        """The reading of a topic, whichever page asks for it; topics take turns."""
        found = self._by_name.pop(name, None)
        if found is None:
            found = SharedReading(partial(self._source.topic, name), run=self._reading.run)
        self._by_name[name] = found
        while len(self._by_name) > _KEPT_MAX:
            self._by_name.popitem(last=False)
        return found

    async def produce(self, request: Request) -> Response:
        message = new_message(await json_body(request, _MESSAGE_MAX_BYTES))
        try:
            return JSONResponse(await self._writing.run(lambda: self._source.produce(message)))
        finally:
            self._shared(message.topic).forget()

    async def produce_command(self, request: Request) -> Response:
        message = new_message(await json_body(request, _MESSAGE_MAX_BYTES))
        return JSONResponse(await asyncio.to_thread(self._source.produce_command, message))
