"""A proxy on 127.0.0.1 between clients and one broker, which reports the traffic to a `PauseWatch`.

It reads from clients at any time, even while the broker does not, so that it sees when they send.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from typing import Final, NamedTuple

from cluster.model.addresses import LOOPBACK
from cluster.model.errors import PeerError
from cluster.protocol.api import ApiKey
from cluster.tools.quotas.pause_watch import WATCHED, PauseWatch
from cluster.tools.quotas.proxied_frames import FrameCutter, throttle_ms_of

_READ_BYTES: Final = 256 * 1024
_HELD_MAX_BYTES: Final = 64 * 1024 * 1024
"""The bytes of a client that the proxy holds for the broker; beyond that it stops reading, too."""
_API_AND_CORRELATION: Final = struct.Struct(">hhi")
_CORRELATION: Final = struct.Struct(">i")


class ProxyTls(NamedTuple):
    """TLS on each side of a proxy, which has to decrypt what it passes on."""

    to_clients: ssl.SSLContext
    """With a key that clients of the broker trust."""
    to_broker: ssl.SSLContext


class WatchingProxy:
    """Lifecycle: created (it has its port), `begin` in a running event loop, `close`."""

    def __init__(self) -> None:
        self._listening = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listening.getsockname()[1]
        self.watch = PauseWatch()
        """Replaced when a run begins; connections that are open then are not watched."""
        self.unreadable = ""
        """Why some connection cannot be followed; empty if there is none."""
        self._broker_port = 0
        self._tls: ProxyTls | None = None
        self._server: asyncio.Server | None = None
        self._count = 0

    async def begin(self, broker_port: int, tls: ProxyTls | None = None) -> None:
        """Pass connections on to the broker; `tls` if its listener has TLS."""
        self._broker_port, self._tls = broker_port, tls
        self._server = await asyncio.start_server(
            self._serve, sock=self._listening, ssl=None if tls is None else tls.to_clients
        )

    def close(self) -> None:
        """Stop accepting connections."""
        if self._server is not None:
            self._server.close()
        self._listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_broker = await asyncio.open_connection(
                LOOPBACK, self._broker_port, ssl=None if self._tls is None else self._tls.to_broker
            )
        except OSError:
            writer.close()
            return
        self._count += 1
        link = _Link(self._count, self.watch)
        try:
            await link.pass_on(reader, writer, *to_broker)
        except _Unreadable as problem:
            self.unreadable = str(problem)
        finally:
            for each in (writer, to_broker[1]):
                each.close()


class _Unreadable(Exception):
    """A client uses the protocol in a way that the proxy cannot follow; the text says how."""


def now_ms() -> float:
    """The clock for all times of a watch."""
    return time.monotonic_ns() / 1e6


class _Link:
    """One connection of a client and its counterpart to the broker."""

    def __init__(self, number: int, watch: PauseWatch) -> None:
        self._number = number
        self._watch = watch
        self._versions: dict[int, int] = {}
        """The versions of watched requests without a response, by correlation id."""

    async def pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        broker_reader: asyncio.StreamReader,
        broker_writer: asyncio.StreamWriter,
    ) -> None:
        """Pass data on until either side closes. Raises _Unreadable."""
        self._watch.on_connected(self._number)
        requests = asyncio.create_task(self._requests(reader, broker_writer))
        answers = asyncio.create_task(self._answers(broker_reader, writer))
        done, pending = await asyncio.wait([requests, answers], return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, PeerError):
                await task
        for task in done:
            with contextlib.suppress(OSError, PeerError):
                task.result()
        self._watch.on_disconnected(self._number, now_ms(), by_client=requests in done)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cutter = FrameCutter(at_head=True)
        while data := await reader.read(_READ_BYTES):
            at_ms = now_ms()
            for frame in cutter.feed(data):
                if len(frame.head) < _API_AND_CORRELATION.size:
                    raise PeerError("a request without a header")
                api_key, version, correlation_id = _API_AND_CORRELATION.unpack_from(frame.head)
                if api_key == ApiKey.SASL_HANDSHAKE and version == 0:
                    raise _Unreadable(
                        "the client logs in by SaslHandshake 0, after which its frames are no"
                        " Kafka requests for a while: this check cannot follow it"
                    )
                if api_key in WATCHED:
                    self._versions[correlation_id] = version
                self._watch.on_request(
                    self._number, api_key, correlation_id, frame.size_bytes, at_ms
                )
            writer.write(data)
            if writer.transport.get_write_buffer_size() > _HELD_MAX_BYTES:
                await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cutter = FrameCutter(at_head=False)
        while data := await reader.read(_READ_BYTES):
            at_ms = now_ms()
            for frame in cutter.feed(data):
                (correlation_id,) = _CORRELATION.unpack_from(frame.head)
                api_key = self._watch.answer_kind(self._number, correlation_id)
                throttle_ms = 0
                if api_key in WATCHED:
                    version = self._versions.pop(correlation_id)
                    throttle_ms = throttle_ms_of(api_key, version, frame)
                self._watch.on_answer(
                    self._number, correlation_id, throttle_ms, frame.size_bytes, at_ms
                )
            writer.write(data)
            await writer.drain()
