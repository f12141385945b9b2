"""The dashboard's routes: their calls of the cluster, and the requests that they refuse."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from cluster.analytics.capacity.scenario import ImpossibleScenario, Scenario
from cluster.dashboard.access import HEADERS, AccessRules
from cluster.dashboard.app import make_app
from cluster.dashboard.live_rows import COLUMNS
from cluster.dashboard.one_at_a_time import WAITING_MAX
from cluster.dashboard.sources import Done, Reading
from cluster.model.errors import UserError
from tests.support.page_requests import TOKEN, Page, post
from tests.support.page_requests import rules as local_rules
from tests.support.waiting import DEADLINE_S

NASTY = "</script><img src=x onerror=alert(1)>\"'\n\u202e😀"


class Recorded:
    """A cluster of one client, which records the requested changes."""

    def __init__(self) -> None:
        self.changes: list[tuple[Any, ...]] = []
        self.failure: str | None = None
        self.scenarios: list[Scenario] = []

    def live(self) -> Reading:
        return Reading({}, {})

    def series(self, name: str, since_ms: int, since_event: int) -> dict[str, Any]:
        return {"range": name, "since": [since_ms, since_event]}

    def client_series(self, since_ms: int, client: tuple[str, str] | None) -> dict[str, Any]:
        return {"since_ms": since_ms, "client": client}

    def found(self, search: str) -> Reading:
        return Reading({(NASTY, search, "fetch"): (None,) * len(COLUMNS)}, {"clients_left_out": 0})

    def now(self, search: str | None = None) -> dict[str, Any]:
        if self.failure is not None:
            raise UserError(self.failure)
        return {"clients": [{"client_id": NASTY}], "search": search}

    def client(self, user: str, client_id: str) -> dict[str, Any]:
        return {"user": user, "client_id": client_id}

    def cluster(self) -> dict[str, Any]:
        raise UserError("no broker answers")

    def pushed(self) -> dict[str, Any]:
        return {"clients": 1, "latencies": [{"client_id": NASTY}], "left_out": 0}

    def held_back(self) -> dict[str, Any]:
        return {"held": [{"transactional_id": NASTY}], "left_out": 0}

    def history(self, user: str, client_id: str, since_ms: int) -> dict[str, Any]:
        return {"since_ms": since_ms}

    def capacity(self) -> dict[str, Any]:
        return {"empty": NASTY, "command": "bin/cluster rollup"}

    def what_if(self, scenario: Scenario) -> dict[str, Any]:
        self.scenarios.append(scenario)
        if self.failure is not None:
            raise ImpossibleScenario(self.failure, "brokers")
        return {"supposed": NASTY}

    def alter_quota(self, entity: Any, changes: Any) -> Done:
        self.changes.append((entity, changes))
        return Done("changed", "bin/cluster quotas set")

    def quota_command(self, entity: Any, changes: Any) -> str:
        return f"bin/cluster quotas set {entity} {changes}"

    def quotas(self) -> dict[str, Any]:
        return {"quotas": [{"name": NASTY}], "left_out": 0}

    def actions(self) -> dict[str, Any]:
        return {"actions": [{"broker": 0, "action": "kill", "command": "bin/cluster kill 0"}]}

    def act(self, broker: int, action: str) -> Done:
        self.changes.append((broker, action))
        return Done("done", f"bin/cluster kill {broker}")

    def exposition(self, broker: int | None, *, openmetrics: bool) -> bytes:
        if broker == 99:
            raise UserError("broker 99 has written no figures")
        return f"{broker} {openmetrics}\n".encode()


@pytest.fixture
def sources() -> Recorded:
    return Recorded()


def page_of(sources: Recorded, **rules: Any) -> Page:
    return Page(make_app(sources, local_rules(**rules)))


@pytest.fixture
def page(sources: Recorded) -> Page:
    return page_of(sources)


QUOTA = {"entity": {"client-id": "loader"}, "changes": {"producer_byte_rate": 1000}}


def test_page_is_complete_and_loads_nothing_from_other_hosts(page: Page) -> None:
    answer = page.get("/")
    assert answer.status_code == 200
    assert TOKEN in answer.text
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    for name in ("app.js", "page.css", "uplot/uPlot.iife.min.js"):
        assert page.get(f"/static/{name}").status_code == 200


@pytest.mark.parametrize("is_guarded", [False, True])
def test_page_lists_access_only_where_clients_are_guarded(
    sources: Recorded, is_guarded: bool
) -> None:
    app = make_app(sources, local_rules(), is_guarded=is_guarded)
    assert ("data-guarded" in Page(app).get("/").text) == is_guarded


def test_commands_on_the_page_name_the_data_directory(sources: Recorded) -> None:
    text = Page(make_app(sources, local_rules(), program="milena --data-dir '/a b'")).get("/").text
    assert 'data-program="milena --data-dir &#39;/a b&#39;"' in text


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/now", "/api/nothing", "/api/client"])
def test_every_answer_forbids_foreign_content(page: Page, path: str) -> None:
    headers = page.get(path).headers
    assert {name: headers[name] for name in HEADERS} == dict(HEADERS)
    assert "unsafe" not in headers["content-security-policy"]


def test_names_of_clients_are_data_whatever_they_contain(page: Page) -> None:
    assert page.get("/api/now").json()["clients"][0]["client_id"] == NASTY
    told = page.get("/api/client", params={"user": NASTY, "client_id": "x" * 10_000}).json()
    assert told == {"user": NASTY, "client_id": "x" * 10_000}
    assert page.get("/api/now", params={"search": NASTY}).json()["search"] == NASTY
    found = page.get("/api/found", params={"search": NASTY}).json()
    assert found["new"][0][:4] == [0, NASTY, NASTY, "fetch"]


def test_user_error_is_reported_in_one_line(page: Page) -> None:
    answer = page.get("/api/cluster")
    assert (answer.status_code, answer.json()) == (409, {"error": "no broker answers"})


@pytest.mark.parametrize("since", ["", "soon", "nan", "inf", "-inf"])
def test_invalid_time_is_refused(page: Page, since: str) -> None:
    query = {"user": "u", "client_id": "c", "since_ms": since}
    assert page.get("/api/history", params=query).status_code == 400


def test_series_are_of_a_known_range_and_time(page: Page) -> None:
    told = page.get("/api/series?range=15m&since_ms=5&since_event=2").json()
    assert told == {"range": "15m", "since": [5, 2]}
    assert page.get("/api/series?range=7d").json() == {"range": "7d", "since": [0, 0]}
    refused = page.get("/api/series?range=2h")
    told = {"error": "a range is one of 2m, 15m, 1h, 6h, 1d, 7d, 30d"}
    assert (refused.status_code, refused.json()) == (400, told)
    assert page.get("/api/series?range=2m&since_ms=soon").status_code == 400


def test_series_of_clients_are_of_all_or_of_one(page: Page) -> None:
    assert page.get("/api/series/clients").json() == {"since_ms": 0, "client": None}
    one = page.get("/api/series/clients", params={"user": "u", "client_id": "", "since_ms": 7})
    assert one.json() == {"since_ms": 7, "client": ["u", ""]}
    assert page.get("/api/series/clients?user=u").status_code == 400


def test_missing_parameter_is_named(page: Page) -> None:
    answer = page.get("/api/client", params={"user": "u"})
    assert (answer.status_code, answer.json()) == (400, {"error": "client_id is missing"})


# ---------------------------------------------------------------------------- changes


def test_quota_change_returns_the_command_line(page: Page, sources: Recorded) -> None:
    answer = post(page, "/api/quotas", QUOTA)
    assert answer.json() == {"text": "changed", "command": "bin/cluster quotas set"}
    assert sources.changes == [({"client-id": "loader"}, {"producer_byte_rate": 1000.0})]


def test_command_lines_are_available_before_the_change(page: Page, sources: Recorded) -> None:
    told = post(page, "/api/quotas/command", QUOTA).json()["command"]
    assert told == "bin/cluster quotas set {'client-id': 'loader'} {'producer_byte_rate': 1000.0}"
    assert post(page, "/api/quotas/command", {"entity": {}}).status_code == 400
    assert page.get("/api/actions").json()["actions"][0]["command"] == "bin/cluster kill 0"
    assert sources.changes == []


def test_capacity_returns_the_view(page: Page) -> None:
    assert page.get("/api/capacity").json()["empty"] == NASTY


# ---------------------------------------------------------------------------- what if

WHAT_IF = "/api/capacity/what-if"


def test_scenario_is_parsed_like_the_command_line(page: Page, sources: Recorded) -> None:
    query = {
        "brokers": "+1",
        "growth": "-20%",
        "retention": ["3d", "orders=7d"],
        "quota": ["producer_byte_rate=2MB", "request_percentage=50%"],
    }
    assert page.get(WHAT_IF, params=query).json() == {"supposed": NASTY}
    day = 86_400.0
    assert sources.scenarios == [
        Scenario("+1", -0.2, 3 * day, {"orders": 7 * day}, {"produce": 2e6, "request": 50.0})
    ]


@pytest.mark.parametrize(
    ("query", "field", "problem"),
    [
        ({}, None, "name at least one of"),
        ({"brokers": ""}, "brokers", "must be like +1, -1 or 4"),
        ({"brokers": "0"}, "brokers", "must be like +1, -1 or 4"),
        ({"growth": "-100%"}, "growth", "must be more than -100%"),
        ({"growth": "nan"}, "growth", "must be more than -100%"),
        ({"growth": NASTY}, "growth", "must be a percentage"),
        ({"growth": "x" * 10_000}, "growth", "must be a percentage"),
        ({"retention": "=3d"}, "retention", "must be like 3d or orders=3d"),
        ({"retention": "9" * 20 + "d"}, "retention", "must be less than"),
        ({"retention": ["3d", "2d"]}, "retention", "give one time"),
        ({"quota": "producer_byte_rate"}, "quota", "must be KEY=AMOUNT"),
        ({"quota": "connection_creation_rate=5"}, "quota", "limits addresses"),
        ({"quota": ["request_percentage=5", "request_percentage=6"]}, "quota", "one limit"),
    ],
    ids=str,
)
def test_invalid_scenario_names_its_field(
    page: Page, sources: Recorded, query: Any, field: str | None, problem: str
) -> None:
    answer = page.get(WHAT_IF, params=query)
    assert answer.status_code == 400
    told = answer.json()
    assert told["field"] == field
    assert problem in told["error"]
    assert "\n" not in told["error"]
    assert len(told["error"]) < 500
    assert sources.scenarios == []


def test_impossible_scenario_names_its_field(page: Page, sources: Recorded) -> None:
    sources.failure = "there are 3 brokers"
    answer = page.get(WHAT_IF, params={"brokers": "-3"})
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": "there are 3 brokers", "field": "brokers"},
    )


def test_scenarios_are_computed_one_at_a_time_and_few_wait(sources: Recorded) -> None:
    may_end = threading.Event()
    guard = threading.Lock()
    overlaps: list[bool] = []

    def slow(scenario: Scenario) -> dict[str, Any]:
        overlaps.append(not guard.acquire(blocking=False))
        assert may_end.wait(DEADLINE_S)
        guard.release()
        return {}

    sources.what_if = slow  # type: ignore[method-assign]
    app = make_app(sources, AccessRules(frozenset({"127.0.0.1"}), TOKEN))

    async def scene() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            asked = [
                asyncio.create_task(client.get(WHAT_IF, params={"growth": "5%"}))
                for _ in range(WAITING_MAX + 3)
            ]
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            refused = done.pop().result()
            assert (refused.status_code, "try again" in refused.json()["error"]) == (503, True)
            may_end.set()
            return [(await each).status_code for each in asked]

    assert sorted(asyncio.run(scene())) == [200] * (WAITING_MAX + 1) + [503] * 2
    assert overlaps == [False] * (WAITING_MAX + 1)


def test_held_back_partitions_are_listed(page: Page) -> None:
    found = page.get("/api/held-back").json()
    assert found == {"held": [{"transactional_id": NASTY}], "left_out": 0}


def test_latencies_of_clients_are_listed(page: Page) -> None:
    assert page.get("/api/pushed").json()["latencies"] == [{"client_id": NASTY}]


def test_quotas_are_listed(page: Page) -> None:
    assert page.get("/api/quotas").json() == {"quotas": [{"name": NASTY}], "left_out": 0}


@pytest.mark.parametrize("action", ["kill", "pause", "resume", "restart"])
def test_action_reaches_the_broker(page: Page, sources: Recorded, action: str) -> None:
    assert post(page, f"/api/brokers/2/{action}").status_code == 200
    assert sources.changes == [(2, action)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"entity": {}, "changes": {"producer_byte_rate": 1}},
        {"entity": {"group": "g"}, "changes": {"producer_byte_rate": 1}},
        {"entity": {"user": ""}, "changes": {"producer_byte_rate": 1}},
        {"entity": {"user": 7}, "changes": {"producer_byte_rate": 1}},
        {"entity": {"user": "u"}, "changes": {}},
        {"entity": {"user": "u"}, "changes": {"speed": 1}},
        {"entity": {"user": "u"}, "changes": {"producer_byte_rate": "many"}},
        {"entity": {"user": "u"}, "changes": {"producer_byte_rate": True}},
        {"entity": {"user": "u"}, "changes": {"producer_byte_rate": 0}},
        {"entity": {"user": "u"}, "changes": {"producer_byte_rate": -5}},
        {"entity": {"user": "u"}, "changes": {"producer_byte_rate": [[]]}},
    ],
)
def test_a_malformed_change_is_refused(page: Page, sources: Recorded, body: Any) -> None:
    answer = page.post("/api/quotas", json=body, headers={"x-milena-token": TOKEN})
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]
    assert sources.changes == []


@pytest.mark.parametrize(
    "content",
    [
        rb'{"entity": {"user": "\ud800"}, "changes": {"producer_byte_rate": 1}}',
        rb'{"entity": {"user": "u"}, "changes": {"\udfff": 1}}',
        rb'{"entity": {"user": "u"}, "changes": {"producer_byte_rate": "\ud800"}}',
        rb'{"\ud800": 1}',
    ],
)
@pytest.mark.parametrize("path", ["/api/quotas", "/api/quotas/command"])
def test_half_a_surrogate_pair_is_refused(
    page: Page, sources: Recorded, path: str, content: bytes
) -> None:
    answer = page.post(path, content=content, headers={"x-milena-token": TOKEN})
    assert answer.status_code == 400
    assert "half a surrogate pair" in answer.json()["error"]
    assert sources.changes == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 60_000, b" " * 70_000])
def test_content_that_is_not_json_is_refused(page: Page, sources: Recorded, content: bytes) -> None:
    answer = page.post("/api/quotas", content=content, headers={"x-milena-token": TOKEN})
    assert answer.status_code == 400
    assert sources.changes == []


def test_an_unknown_action_or_broker_is_refused(page: Page, sources: Recorded) -> None:
    assert post(page, "/api/brokers/1/explode").status_code == 400
    assert post(page, "/api/brokers/-1/kill").status_code == 404
    assert post(page, "/api/brokers/all/kill").status_code == 404
    assert sources.changes == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-milena-token": ""},
        {"x-milena-token": "wrong"},
        {"x-milena-token": TOKEN, "origin": "http://evil.example"},
        {"x-milena-token": TOKEN, "origin": "null"},
        {"x-milena-token": TOKEN, "origin": "http://127.0.0.1:9999"},
        {"x-milena-token": TOKEN, "sec-fetch-site": "cross-site"},
        {"x-milena-token": TOKEN, "sec-fetch-site": "same-site"},
    ],
)
def test_request_of_another_page_is_refused(
    page: Page, sources: Recorded, headers: dict[str, str]
) -> None:
    for path in ("/api/quotas", "/api/brokers/0/kill"):
        answer = page.post(path, json=QUOTA, headers=headers)
        assert answer.status_code == 403
    assert sources.changes == []


def test_own_page_may_send_its_origin(page: Page, sources: Recorded) -> None:
    own = {"origin": "http://127.0.0.1:9292", "sec-fetch-site": "same-origin"}
    assert post(page, "/api/quotas", QUOTA, **own).status_code == 200
    assert len(sources.changes) == 1


def test_get_cannot_change_anything(page: Page, sources: Recorded) -> None:
    assert page.get("/api/brokers/0/kill", headers={"x-milena-token": TOKEN}).status_code == 405
    assert sources.changes == []


# ---------------------------------------------------------------------------- hosts and passwords


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9292", "127.0.0.1.evil.example", ""]
)
def test_a_foreign_name_for_this_machine_is_refused(page: Page, host: str) -> None:
    for path in ("/", "/api/now", "/metrics", "/static/app.js"):
        assert page.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:9292", "LOCALHOST", "[::1]:9292", "127.0.0.1"])
def test_every_local_host_name_is_accepted(page: Page, host: str) -> None:
    assert page.get("/api/now", headers={"host": host}).status_code == 200


@pytest.mark.slow
def test_dashboard_for_other_machines_requires_its_password(sources: Recorded) -> None:
    client = page_of(sources, hosts=None, password="secret", may_change=True)
    for path in ("/", "/api/now", "/metrics", "/static/app.js"):
        refused = client.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
        assert TOKEN not in refused.text
        assert client.get(path, auth=("milena", "secret")).status_code == 200
    for wrong in (("milena", "Secret"), ("admin", "secret"), ("milena", "")):
        assert client.get("/api/now", auth=wrong).status_code == 401
    for header in ("Basic", "Basic !!!", "Basic /w==", "Bearer secret", "Basic bWlsZW5h"):
        assert client.get("/api/now", headers={"authorization": header}).status_code == 401
    answer = client.post("/api/quotas", json=QUOTA, headers={"x-milena-token": TOKEN})
    assert answer.status_code == 401
    assert sources.changes == []


def test_dashboard_for_other_machines_refuses_changes_by_default(sources: Recorded) -> None:
    client = page_of(sources, may_change=False)
    assert TOKEN not in client.get("/").text
    answer = post(client, "/api/quotas", QUOTA)
    assert answer.status_code == 403
    assert "--dashboard-actions" in answer.json()["error"]
    assert sources.changes == []


# ---------------------------------------------------------------------------- the other routes


def test_metrics_of_all_brokers_or_of_one(page: Page) -> None:
    plain = page.get("/metrics")
    assert (plain.text, plain.headers["content-type"]) == (
        "None False\n",
        "text/plain; version=0.0.4; charset=utf-8",
    )
    accepts = {"accept": "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"}
    assert page.get("/metrics/broker/1", headers=accepts).text == "1 True\n"
    unknown = page.get("/metrics/broker/99")
    assert (unknown.status_code, unknown.text) == (404, "broker 99 has written no figures\n")


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"]
)
def test_only_static_files_are_served(page: Page, path: str) -> None:
    assert page.get(path).status_code == 404


def streamed(sources: Recorded, reading: Callable[[int], Reading]) -> httpx.Response:
    """The whole stream of a server that stops at its second reading."""
    app = make_app(sources, AccessRules(frozenset({"127.0.0.1"}), TOKEN))
    readings = 0

    async def scene() -> httpx.Response:
        loop = asyncio.get_running_loop()

        def live() -> Reading:
            nonlocal readings
            readings += 1
            if readings == 2:
                loop.call_soon_threadsafe(app.state.end_streams)
            return reading(readings)

        sources.live = live  # type: ignore[method-assign]
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/api/live")

    return asyncio.run(scene())


@pytest.mark.slow
def test_stream_sends_readings_until_the_server_stops(sources: Recorded) -> None:
    row = (True, 1.0, *[None] * (len(COLUMNS) - 2))
    answer = streamed(
        sources, lambda number: Reading({(NASTY, NASTY, "fetch"): row}, {"n": number})
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    data = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    told = json.loads(data[0].removeprefix("data: "))
    assert told == {"n": 1, "columns": list(COLUMNS), "new": [[0, NASTY, NASTY, "fetch", *row]]}


@pytest.mark.slow
def test_failed_reading_is_reported_in_the_stream(sources: Recorded) -> None:
    def failing(_number: int) -> Reading:
        raise ZeroDivisionError

    told = streamed(sources, failing).text
    assert '{"error":"the dashboard has failed to read: see its log"}' in told
