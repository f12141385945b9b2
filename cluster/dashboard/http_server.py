"""The dashboard's process: serves the application on a socket until SIGTERM."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from cluster.dashboard.http_connection import CONNECTIONS_MAX, HttpConnection

log = logging.getLogger(__name__)

_STOP_AFTER_S: Final = 1
"""How long requests in progress may take when the server stops."""
_THREADS_MAX: Final = 32
"""Python's own limit is 6 on two cores: so many readings that wait for a broker that hangs would
keep all others from a thread, those of the live stream too.
"""


class _Server(uvicorn.Server):
    """Leaves signals to `serve`, since uvicorn would raise them again at its end, and waits for
    `stop` instead of polling ten times a second.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Stop; called on the server's loop."""
        self.should_exit = True
        self._stopped.set()

    async def main_loop(self) -> None:
        """Wait until stopped."""
        await self.on_tick(0)  # sets the headers of each response
        await self._stopped.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    app: ASGIApp,
    listening: socket.socket,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT.

    On either, `on_stop` is called on the server's loop to end what does not end by itself, such as
    streams.
    """
    config = uvicorn.Config(
        app,
        http=HttpConnection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_STOP_AFTER_S,
        limit_concurrency=CONNECTIONS_MAX + 1,  # reached if none of them is idle
    )
    server = _Server(config)

    def stop() -> None:
        server.stop()
        on_stop()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS_MAX))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            on_ready()
        await serving

    asyncio.run(run())
