"""The routes of the page's groups."""

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cluster.dashboard.groups.resetting import reset_of
from cluster.dashboard.groups.source import GroupSource, Reset
from cluster.dashboard.http_requests import (
    NO_STORE,
    BadRequest,
    json_body,
    json_of,
    number_in,
    query_of,
)
from cluster.dashboard.one_at_a_time import OneAtATime
from cluster.dashboard.sampling import recorder
from cluster.dashboard.shared_reading import SharedReading
from cluster.dashboard.sources import Json

_KEPT_MAX: Final = 50
"""Groups whose last reading is kept, those that were asked for last."""
_SHARE: Final = 0.5
"""Readings of one group spend most of their time waiting for brokers."""


def group_routes(source: GroupSource) -> list[Route]:
    """The routes, which read and change groups through `source` alone."""
    routes = _GroupRoutes(source)
    return [
        Route("/api/groups", routes.listed),
        Route("/api/groups/one", routes.group),
        Route("/api/groups/explained", routes.explained),
        Route("/api/groups/series", routes.series),
        Route("/api/groups/reset", routes.preview),
        Route("/api/groups/reset", routes.reset, methods=["POST"]),
    ]


class _GroupRoutes:
    def __init__(self, source: GroupSource) -> None:
        self._source = source
        self._listed = SharedReading(source.listed)
        self._groups = _ReadingByGroup(source.group, "group")
        self._explained = _ReadingByGroup(source.explained, "explanation of a group")
        self._resets = OneAtATime("reset of offsets")

    async def listed(self, _request: Request) -> Response:
        return JSONResponse(await self._listed.get(), headers=NO_STORE)

    async def group(self, request: Request) -> Response:
        found = await self._groups.get(query_of(request, "group"))
        return JSONResponse(found, headers=NO_STORE)

    async def explained(self, request: Request) -> Response:
        found = await self._explained.get(query_of(request, "group"))
        return JSONResponse(found, headers=NO_STORE)

    async def series(self, request: Request) -> Response:
        """A range of one group after `since_ms` and `since_event`, in the form of `/api/series`."""
        group, name = query_of(request, "group"), query_of(request, "range")
        if name not in recorder.RANGES_S:
            raise BadRequest(f"a range is one of {', '.join(recorder.RANGES_S)}")
        since_ms, since_event = (
            int(number_in(request.query_params.get(each, "0")))
            for each in ("since_ms", "since_event")
        )
        return await json_of(lambda: self._source.series(group, name, since_ms, since_event))

    async def preview(self, request: Request) -> Response:
        reset = reset_of(request.query_params)
        found = await self._resets.run(lambda: self._source.preview(reset))
        return JSONResponse(found, headers=NO_STORE)

    async def reset(self, request: Request) -> Response:
        reset = reset_of(await json_body(request))
        try:
            return JSONResponse(await self._resets.run(lambda: self._done(reset)))
        finally:
            self._groups.forget(reset.group)

    def _done(self, reset: Reset) -> Json:
        done = self._source.reset(reset)
        return {"text": done.text, "command": done.command}


class _ReadingByGroup:
    """A shared reading of each group; they take turns, so a coordinator that hangs holds up one
    thread.
    """

    def __init__(self, read: Callable[[str], Json], what: str) -> None:
        self._read = read
        self._turn = OneAtATime(what)
        self._kept: OrderedDict[str, SharedReading] = OrderedDict()

    async def get(self, group: str) -> Json:
        reading = self._kept.get(group)
        if reading is None:
            reading = SharedReading(
                functools.partial(self._read, group), run=self._turn.run, share=_SHARE
            )
            self._kept[group] = reading
        self._kept.move_to_end(group)
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return await reading.get()

    def forget(self, group: str) -> None:
        if group in self._kept:
            self._kept[group].forget()
