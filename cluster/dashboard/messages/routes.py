"""The routes of the message browser."""

import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cluster.dashboard.http_requests import NO_STORE
from cluster.dashboard.messages.asking import InvalidQuestion, Question, place, question
from cluster.dashboard.messages.batches import Message
from cluster.dashboard.messages.rows import whole_row
from cluster.dashboard.one_at_a_time import OneAtATime
from cluster.dashboard.sources import Json

_unsafe_in_names: Final = re.compile(r"[^\w.-]", re.ASCII).sub


class Messages(Protocol):
    """Blocking calls, made on threads, one at a time. Each raises UserError with one line."""

    def page(self, question: Question) -> Json:
        """A page of messages, see `rows.page_json`."""
        ...

    def one(self, topic: str, partition: int, offset: int) -> Message:
        """One message."""
        ...


def message_routes(messages: Messages) -> list[Route]:
    """Pages of messages, one message in full, and the bytes of its key or value."""
    turns = OneAtATime("messages")

    async def page(request: Request) -> Response:
        asked = question(request.query_params)
        return JSONResponse(await turns.run(lambda: messages.page(asked)), headers=NO_STORE)

    async def one(request: Request) -> Response:
        topic, partition, offset = place(request.query_params)
        as_hex = request.query_params.get("as") == "hex"

        def read() -> Json:
            return whole_row(messages.one(topic, partition, offset), as_hex=as_hex)

        return JSONResponse(await turns.run(read), headers=NO_STORE)

    async def raw(request: Request) -> Response:
        topic, partition, offset = place(request.query_params)
        part = "key" if request.query_params.get("part") == "key" else "value"

        def read() -> Json:
            return {"content": getattr(messages.one(topic, partition, offset), part) or b""}

        content = (await turns.run(read))["content"]
        name = f"{_unsafe_in_names('_', topic)}-{partition}-{offset}.{part}"
        headers = {**NO_STORE, "content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    return [
        Route("/api/messages", _answered(page)),
        Route("/api/messages/one", _answered(one)),
        Route("/api/messages/raw", _answered(raw)),
    ]


Handler = Callable[[Request], Awaitable[Response]]


def _answered(handle: Handler) -> Handler:
    """A handler that says why a question cannot be answered."""

    async def answer(request: Request) -> Response:
        try:
            return await handle(request)
        except InvalidQuestion as problem:
            return JSONResponse({"error": str(problem), "field": problem.field}, 400)

    return answer
