"""The dashboard's server reports an unusable port in one line and stops cleanly on SIGTERM."""

import asyncio
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from cluster.dashboard.http_server import serve
from cluster.model.errors import UserError
from cluster.runtime.held_socket import listen


def test_taken_port_is_reported_in_one_line() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError) as problem:
            listen("127.0.0.1", port)
    assert str(problem.value) == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use: choose another"
        " --dashboard-port"
    )


def test_foreign_address_is_reported_in_one_line() -> None:
    with pytest.raises(UserError, match=r"^cannot listen on 192\.0\.2\.1:0: [^\n]*$"):
        listen("192.0.2.1", 0)


def test_server_runs_until_sigterm() -> None:
    app = Starlette(routes=[Route("/", lambda _request: PlainTextResponse("here"))])
    listening: socket.socket = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    told: list[Any] = []

    def ask_and_stop() -> None:
        told.append(httpx.get(url).text)
        os.kill(os.getpid(), signal.SIGTERM)

    asking = threading.Thread(target=ask_and_stop)
    serve(app, listening, on_ready=asking.start, on_stop=lambda: told.append("stop"))
    asking.join()
    assert told == ["here", "stop"]


def test_many_readings_may_wait_at_once() -> None:
    count = 16
    all_are_there = threading.Barrier(count)

    async def wait(_request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(await asyncio.to_thread(all_are_there.wait, 20) >= 0))

    listening: socket.socket = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    told: list[str] = []

    def ask_and_stop() -> None:
        with ThreadPoolExecutor(count) as pool:
            told.extend(pool.map(lambda _: httpx.get(url, timeout=30).text, range(count)))
        os.kill(os.getpid(), signal.SIGTERM)

    asking = threading.Thread(target=ask_and_stop)
    app = Starlette(routes=[Route("/", wait)])
    serve(app, listening, on_ready=asking.start, on_stop=lambda: None)
    asking.join()
    assert told == ["True"] * count
