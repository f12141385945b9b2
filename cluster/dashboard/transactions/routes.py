"""The routes of transactions."""

from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cluster.dashboard.http_requests import (
    NO_STORE,
    BadRequest,
    done_of,
    json_body,
    query_of,
)
from cluster.dashboard.one_at_a_time import OneAtATime
from cluster.dashboard.shared_reading import SharedReading
from cluster.dashboard.sources import Done, Json

_LARGEST: Final = 2**63 - 1
_DIGITS: Final = len(str(_LARGEST))


class TransactionSource(Protocol):
    """Blocking calls, see `TransactionReader`. Each raises UserError."""

    def transactions(self, search: str = "") -> Json: ...
    def explain(self, transactional_id: str) -> Json: ...
    def terminate_preview(self, transactional_id: str) -> Json: ...
    def abort_preview(self, topic: str, partition: int, offset: int) -> Json: ...
    def terminate(self, transactional_id: str) -> Done: ...
    def abort(self, topic: str, partition: int, offset: int) -> Done: ...


def transaction_routes(source: TransactionSource) -> list[Route]:
    """The routes, which read and end transactions through the source alone."""
    routes = _Routes(source)
    return [
        Route("/api/transactions", routes.transactions),
        Route("/api/transactions/explain", routes.explain),
        Route("/api/transactions/terminate", routes.terminate_preview),
        Route("/api/transactions/terminate", routes.terminate, methods=["POST"]),
        Route("/api/transactions/abort", routes.abort_preview),
        Route("/api/transactions/abort", routes.abort, methods=["POST"]),
    ]


class _Routes:
    def __init__(self, source: TransactionSource) -> None:
        self._source = source
        self._listed = SharedReading(source.transactions)
        self._questions = OneAtATime("transaction")

    async def transactions(self, request: Request) -> Response:
        search = request.query_params.get("search", "")
        if not search:
            listed = await self._listed.get()
            if listed["problems"]:  # waiting for a broker that hung was no work: read again soon
                self._listed.forget()
            return JSONResponse(listed, headers=NO_STORE)
        found = await self._questions.run(lambda: self._source.transactions(search))
        return JSONResponse(found, headers=NO_STORE)

    async def explain(self, request: Request) -> Response:
        name = query_of(request, "transactional_id")
        found = await self._questions.run(lambda: self._source.explain(name))
        return JSONResponse(found, headers=NO_STORE)

    async def terminate_preview(self, request: Request) -> Response:
        """What POST will do, with the command line."""
        name = query_of(request, "transactional_id")
        found = await self._questions.run(lambda: self._source.terminate_preview(name))
        return JSONResponse(found, headers=NO_STORE)

    async def terminate(self, request: Request) -> Response:
        name = (await json_body(request)).get("transactional_id")
        if not isinstance(name, str) or not name:
            raise BadRequest("`transactional_id` is a name")
        try:
            return await done_of(lambda: self._source.terminate(name))
        finally:
            self._listed.forget()

    async def abort_preview(self, request: Request) -> Response:
        """What POST will do, with the command line."""
        topic = query_of(request, "topic")
        partition, offset = (_whole(query_of(request, each)) for each in ("partition", "offset"))
        found = await self._questions.run(
            lambda: self._source.abort_preview(topic, partition, offset)
        )
        return JSONResponse(found, headers=NO_STORE)

    async def abort(self, request: Request) -> Response:
        body = await json_body(request)
        topic = body.get("topic")
        if not isinstance(topic, str) or not topic:
            raise BadRequest("`topic` is a name")
        partition, offset = (_whole(body.get(each)) for each in ("partition", "offset"))
        try:
            return await done_of(lambda: self._source.abort(topic, partition, offset))
        finally:
            self._listed.forget()


def _whole(given: object) -> int:
    """A partition or an offset. Raises BadRequest."""
    text = str(given)
    is_number = text.isdecimal() and len(text) <= _DIGITS and not isinstance(given, bool)
    if not is_number or int(text) > _LARGEST:
        raise BadRequest(f"{text[:40]} is not a partition or an offset")
    return int(text)
