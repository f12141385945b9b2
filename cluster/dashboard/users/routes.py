"""The route of users and access rules."""

import asyncio
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cluster.dashboard.http_requests import NO_STORE
from cluster.dashboard.shared_reading import SharedReading
from cluster.dashboard.sources import Json
from cluster.dashboard.users.access_view import AccessFacts


class AccessSource(Protocol):
    """Blocking calls, see `AccessReader`. Each raises UserError."""

    def read(self) -> AccessFacts: ...
    def view(self, facts: AccessFacts, principal: str, resource: str) -> Json: ...


def access_routes(source: AccessSource) -> list[Route]:
    """The routes; all pages and filters share a reading of the brokers."""
    facts = SharedReading(lambda: {"facts": source.read()})

    async def access(request: Request) -> Response:
        read = (await facts.get())["facts"]
        texts = [request.query_params.get(each, "") for each in ("principal", "resource")]
        found = await asyncio.to_thread(source.view, read, *texts)
        return JSONResponse(found, headers=NO_STORE)

    return [Route("/api/access", access)]
