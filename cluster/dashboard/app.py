"""The dashboard's routes: the page, its API, the live stream, Prometheus' endpoint."""

import asyncio
import functools
import logging
from collections.abc import Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cluster.analytics.capacity.scenario import ImpossibleScenario
from cluster.analytics.capacity.supposed import written_scenario
from cluster.dashboard.access import AccessCheck, AccessRules
from cluster.dashboard.broker_actions import ACTIONS
from cluster.dashboard.exposition_text import accepts_openmetrics
from cluster.dashboard.http_requests import (
    NO_STORE,
    BadRequest,
    done_of,
    json_body,
    json_of,
    number_in,
    query_of,
)
from cluster.dashboard.live import WATCHERS_MAX, LiveFeed, TooMany
from cluster.dashboard.live_differences import Differences, Update
from cluster.dashboard.one_at_a_time import AlreadyRunning, OneAtATime
from cluster.dashboard.page_modules import modules_of
from cluster.dashboard.sampling import recorder, rollup_past
from cluster.dashboard.shared_reading import SharedReading
from cluster.dashboard.sources import Sources
from cluster.model.errors import UserError
from cluster.model.quotas import QUOTA_KEYS
from cluster.runtime.installation import launcher

log = logging.getLogger(__name__)

_CAPACITY_PERIOD_S: Final = 30.0
"""New windows come every few seconds at most, and a history of weeks changes slowly."""
_FIRST_MODULES: Final = modules_of("app.js")
"""The page names them all, so that no browser waits for one before it fetches those it imports."""
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def make_app(
    sources: Sources,
    rules: AccessRules,
    more_routes: Sequence[Route] = (),
    *,
    program: str | None = None,
    is_guarded: bool = False,
) -> Starlette:
    """Make the application, which reads and changes the cluster through `sources` alone.

    `more_routes` are those of views with a package of their own. `program` is the launcher, quoted
    for a shell, if commands are to name a data directory. `is_guarded`: whether the page
    lists users and access rules in its navigation. Call
    `app.state.end_streams` on its loop to let it stop.
    """
    routes = _Routes(sources, rules, program or launcher(), is_guarded=is_guarded)
    app = Starlette(
        routes=[
            Route("/", routes.page),
            Mount("/static", StaticFiles(packages=[("cluster.dashboard", "static")])),
            Route("/api/live", routes.stream),
            Route("/api/now", routes.now),
            Route("/api/found", routes.found),
            Route("/api/series", routes.series),
            Route("/api/series/clients", routes.client_series),
            Route("/api/client", routes.client),
            Route("/api/cluster", routes.cluster),
            Route("/api/held-back", routes.held_back),
            Route("/api/pushed", routes.pushed),
            Route("/api/history", routes.history),
            Route("/api/capacity", routes.capacity),
            Route("/api/capacity/what-if", routes.what_if),
            Route("/api/quotas", routes.quotas),
            Route("/api/quotas", routes.alter_quota, methods=["POST"]),
            Route("/api/quotas/command", routes.quota_command, methods=["POST"]),
            Route("/api/actions", routes.actions),
            Route("/api/brokers/{broker:int}/{action}", routes.act, methods=["POST"]),
            Route("/metrics", routes.metrics),
            Route("/metrics/broker/{broker:int}", routes.metrics),
            *more_routes,
        ],
        middleware=[
            Middleware(AccessCheck, rules=rules),
            Middleware(GZipMiddleware, minimum_size=2_000),
        ],
        exception_handlers={
            UserError: _on_user_error,
            ImpossibleScenario: _on_impossible_scenario,
            AlreadyRunning: _on_busy,
            BadRequest: _on_bad_request,
            TooMany: _on_too_many,
        },
    )
    app.state.end_streams = routes.end_streams
    return app


class _Routes:
    def __init__(
        self, sources: Sources, rules: AccessRules, program: str, *, is_guarded: bool
    ) -> None:
        self._sources = sources
        self._program = program
        self._is_guarded = is_guarded
        self._rules = rules
        self._differences = Differences()
        self._feed = LiveFeed(self._reading)
        self._cluster = SharedReading(sources.cluster)
        self._held_back = SharedReading(sources.held_back)
        self._pushed = SharedReading(sources.pushed)
        self._quotas = SharedReading(sources.quotas)
        self._capacity = SharedReading(sources.capacity, _CAPACITY_PERIOD_S)
        self._rollup = {
            name: SharedReading(functools.partial(sources.series, name, 0, 0), _CAPACITY_PERIOD_S)
            for name in rollup_past.RANGES_S
        }
        self._what_ifs = OneAtATime("what-if")
        pages = Environment(
            loader=PackageLoader("cluster.dashboard"), autoescape=True, undefined=StrictUndefined
        )
        self._page = pages.get_template("index.html")

    def end_streams(self) -> None:
        self._feed.close()

    def _reading(self) -> Update:
        try:
            return self._differences.update(*self._sources.live())
        except UserError as problem:
            return self._differences.failed(str(problem))
        except Exception:
            log.exception("a reading has failed")  # the next one may differ
            return self._differences.failed("the dashboard has failed to read: see its log")

    async def page(self, _request: Request) -> Response:
        text = self._page.render(
            modules=_FIRST_MODULES,
            token=self._rules.token,
            may_change=self._rules.may_change,
            program=self._program,
            is_guarded=self._is_guarded,
        )
        return HTMLResponse(text, headers=NO_STORE)

    async def stream(self, _request: Request) -> Response:
        events = self._feed.watch()
        first = await anext(events)  # refuses before the response begins

        async def stream() -> Any:
            yield first
            async for event in events:
                yield event

        return StreamingResponse(stream(), media_type="text/event-stream", headers=NO_STORE)

    async def now(self, request: Request) -> Response:
        search = request.query_params.get("search")
        return await json_of(lambda: self._sources.now(search))

    async def found(self, request: Request) -> Response:
        search = query_of(request, "search")
        rows, sections = await asyncio.to_thread(lambda: self._sources.found(search))
        text = Differences().update(rows, sections).whole
        return Response(text, media_type="application/json", headers=NO_STORE)

    async def series(self, request: Request) -> Response:
        """A range in memory after `since_ms` and `since_event`, or a whole one of the rollup."""
        name = query_of(request, "range")
        if name in self._rollup:
            return JSONResponse(await self._rollup[name].get(), headers=NO_STORE)
        if name not in recorder.RANGES_S:
            known = ", ".join([*recorder.RANGES_S, *self._rollup])
            raise BadRequest(f"a range is one of {known}")
        since_ms, since_event = (
            int(number_in(request.query_params.get(each, "0")))
            for each in ("since_ms", "since_event")
        )
        return await json_of(lambda: self._sources.series(name, since_ms, since_event))

    async def client_series(self, request: Request) -> Response:
        given = request.query_params
        client = None
        if "user" in given or "client_id" in given:
            client = (query_of(request, "user"), query_of(request, "client_id"))
        since_ms = int(number_in(given.get("since_ms", "0")))
        return await json_of(lambda: self._sources.client_series(since_ms, client))

    async def client(self, request: Request) -> Response:
        user, client_id = query_of(request, "user"), query_of(request, "client_id")
        return await json_of(lambda: self._sources.client(user, client_id))

    async def cluster(self, _request: Request) -> Response:
        return JSONResponse(await self._cluster.get(), headers=NO_STORE)

    async def held_back(self, _request: Request) -> Response:
        return JSONResponse(await self._held_back.get(), headers=NO_STORE)

    async def pushed(self, _request: Request) -> Response:
        return JSONResponse(await self._pushed.get(), headers=NO_STORE)

    async def history(self, request: Request) -> Response:
        user, client_id = query_of(request, "user"), query_of(request, "client_id")
        since_ms = number_in(query_of(request, "since_ms"))
        return await json_of(lambda: self._sources.history(user, client_id, int(since_ms)))

    async def capacity(self, _request: Request) -> Response:
        return JSONResponse(await self._capacity.get(), headers=NO_STORE)

    async def what_if(self, request: Request) -> Response:
        given = request.query_params
        scenario = written_scenario(
            given.get("brokers"),
            given.get("growth"),
            given.getlist("retention"),
            given.getlist("quota"),
        )
        found = await self._what_ifs.run(lambda: self._sources.what_if(scenario))
        return JSONResponse(found, headers=NO_STORE)

    async def quotas(self, _request: Request) -> Response:
        return JSONResponse(await self._quotas.get(), headers=NO_STORE)

    async def quota_command(self, request: Request) -> Response:
        body = await json_body(request)
        entity, changes = _entity(body.get("entity")), _changes(body.get("changes"))
        return JSONResponse({"command": self._sources.quota_command(entity, changes)})

    async def actions(self, _request: Request) -> Response:
        return await json_of(self._sources.actions)

    async def alter_quota(self, request: Request) -> Response:
        body = await json_body(request)
        entity, changes = _entity(body.get("entity")), _changes(body.get("changes"))
        try:
            return await done_of(lambda: self._sources.alter_quota(entity, changes))
        finally:
            self._quotas.forget()

    async def act(self, request: Request) -> Response:
        broker, action = request.path_params["broker"], request.path_params["action"]
        if action not in ACTIONS:
            raise BadRequest(f"an action is one of {', '.join(ACTIONS)}")
        return await done_of(lambda: self._sources.act(broker, action))

    async def metrics(self, request: Request) -> Response:
        is_open = accepts_openmetrics(request.headers.get("accept", ""))
        broker: int | None = request.path_params.get("broker")
        try:
            text = await asyncio.to_thread(
                lambda: self._sources.exposition(broker, openmetrics=is_open)
            )
        except UserError as problem:  # no such broker
            return PlainTextResponse(f"{problem}\n", 404)
        return Response(text, media_type=_OPENMETRICS if is_open else _TEXT)


def _entity(given: object) -> dict[str, str | None]:
    known = {"user", "client-id", "ip"}
    if (
        not isinstance(given, dict)
        or not given
        or not given.keys() <= known
        or not all(name is None or (isinstance(name, str) and name) for name in given.values())
    ):
        raise BadRequest(
            "`entity` names user, client-id or ip, each a name or null for the default"
        )
    return given


def _changes(given: object) -> dict[str, float | None]:
    if not isinstance(given, dict) or not given or not given.keys() <= QUOTA_KEYS.keys():
        raise BadRequest(f"`changes` has one or more of {', '.join(QUOTA_KEYS)}")
    changes = {key: None if value is None else number_in(value) for key, value in given.items()}
    if any(value is not None and value <= 0 for value in changes.values()):
        raise BadRequest("a limit is more than 0")
    return changes


def _on_user_error(_request: Request, problem: Exception) -> Response:
    return JSONResponse({"error": str(problem)}, 409)


def _on_impossible_scenario(_request: Request, problem: Exception) -> Response:
    """`field` names the invalid parameter; it is null if the combination is."""
    field = getattr(problem, "field", None)
    return JSONResponse({"error": str(problem), "field": field}, 400)


def _on_busy(_request: Request, problem: Exception) -> Response:
    return JSONResponse({"error": str(problem)}, 503)


def _on_bad_request(_request: Request, problem: Exception) -> Response:
    return JSONResponse({"error": str(problem)}, 400)


def _on_too_many(_request: Request, _problem: Exception) -> Response:
    return JSONResponse({"error": f"{WATCHERS_MAX} pages are open, and more may not be"}, 503)
