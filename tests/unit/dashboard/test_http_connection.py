"""Connections that send nothing, half a request, or read no response do not block others."""

import asyncio
import os
import resource
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from cluster.dashboard import http_connection
from cluster.dashboard.http_connection import CONNECTIONS_MAX
from cluster.dashboard.http_server import serve
from cluster.runtime.held_socket import listen
from tests.support.waiting import DEADLINE_S, wait_until

SOON_S = 0.2


@pytest.fixture
def enough_files() -> Iterator[None]:
    """This process has both ends of a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4_000:
        pytest.skip("this process may not open 4,000 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def served(app: Starlette, use: Callable[[tuple[str, int]], Any]) -> Any:
    """The result of `use`, called with an address at which the application is served meanwhile."""
    listening = listen("127.0.0.1", 0)
    told: list[Any] = []

    def run() -> None:
        try:
            told.append(use(listening.getsockname()))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=run)
    serve(app, listening, on_ready=thread.start, on_stop=lambda: None)
    thread.join()
    return told[0]


def app_of(**routes: Callable[[Request], Any]) -> Starlette:
    return Starlette(
        routes=[
            Route("/", lambda _request: PlainTextResponse("here")),
            *(
                Route(f"/{name}", answer, methods=["GET", "POST"])
                for name, answer in routes.items()
            ),
        ]
    )


def connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, DEADLINE_S)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


@pytest.mark.slow
@pytest.mark.usefixtures("enough_files")
def test_idle_connections_make_room_for_others() -> None:
    def use(address: tuple[str, int]) -> tuple[int, int]:
        with ExitStack() as stack:
            silent = [stack.enter_context(connected(address)) for _ in range(1_000)]
            url = f"http://{address[0]}:{address[1]}/"
            with httpx.Client(timeout=DEADLINE_S) as browser:
                status = browser.get(url).status_code
            closed = [each for each in silent[: 1_000 - CONNECTIONS_MAX] if is_closed(each)]
        return status, len(closed)

    assert served(app_of(), use) == (200, 1_000 - CONNECTIONS_MAX)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n", marks=pytest.mark.slow
        ),  # after the five seconds that uvicorn waits for another request
    ],
)
def test_connection_without_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_connection, "REQUEST_S", SOON_S)

    async def echo(request: Request) -> Response:
        return Response(await request.body())

    def use(address: tuple[str, int]) -> bool:
        with connected(address) as connection:
            connection.sendall(sent)
            while not is_closed(connection):  # a response to a first request is read completely
                pass
        return True

    assert served(app_of(echo=echo), use)


@pytest.mark.slow
def test_a_stream_outlives_the_time_for_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "REQUEST_S", 1.0)

    async def stream(_request: Request) -> Response:
        async def parts() -> AsyncIterator[str]:
            yield "first\n"
            await asyncio.sleep(1.5)
            yield "last\n"

        return StreamingResponse(parts())

    def use(address: tuple[str, int]) -> str:
        return httpx.get(f"http://{address[0]}:{address[1]}/stream", timeout=DEADLINE_S).text

    assert served(app_of(stream=stream), use) == "first\nlast\n"


@pytest.mark.slow
def test_connection_is_closed_when_the_response_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connection, "STALLED_S", SOON_S)
    ended = threading.Event()

    async def endless(_request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 100_000
                    await asyncio.sleep(0)
            finally:
                ended.set()

        return StreamingResponse(parts())

    def use(address: tuple[str, int]) -> bool:
        with connected(address) as connection:
            connection.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(ended.is_set, "the end of the answer")
        return True

    assert served(app_of(endless=endless), use)
