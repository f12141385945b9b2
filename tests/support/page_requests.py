"""Requests as a browser sends them, answered by the dashboard's application itself."""

import asyncio
from collections.abc import Sequence
from typing import Any, Self

import httpx
from starlette.routing import Route

from cluster.dashboard.access import AccessRules
from cluster.dashboard.app import make_app

TOKEN = "token-of-the-page"


class Page:
    """A browser whose requests do not pass a network."""

    def __init__(self, app: Any) -> None:
        self.app = app

    @classmethod
    def of_parts(cls, parts: Sequence[Route], allowed: AccessRules | None = None) -> Self:
        """With the routes of a package; those of the application itself have nothing to read."""
        return cls(make_app(_Nothing(), allowed or rules(), parts))

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:9292"
            ) as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)


class _Nothing:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: {}


def rules(**given: Any) -> AccessRules:
    """Those of a local dashboard."""
    hosts = frozenset({"127.0.0.1", "::1", "localhost"})
    return AccessRules(**{"hosts": hosts, "token": TOKEN, **given})


def post(client: Page, path: str, body: Any = None, **headers: str) -> Any:
    """The answer to a request for a change, with the page's token."""
    return client.post(path, json=body or {}, headers={"x-milena-token": TOKEN, **headers})
