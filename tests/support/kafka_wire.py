"""A Kafka client of nothing but a socket, for what no well-behaved client would send.

Messages are kio's, built from plain dicts: an encoder and decoder that the broker does not share.
"""

import contextlib
import dataclasses
import io
import socket
import struct
import typing
import uuid
from collections import deque
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from cluster.client.exchange import decode_response
from cluster.protocol.api import ApiKey
from tests.support.running_cluster import Address
from tests.support.waiting import is_readable

TIMEOUT_S = 30.0
_SIZE = struct.Struct(">i")
_CLOSED = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class ClosedByPeer(Exception):
    """The broker has closed the connection."""


def request(api_key: int, version: int, **fields: Any) -> Any:
    """A request of kio; nested structures are dicts, durations are milliseconds.

    Fields that this version lacks are left out.
    """
    return _build(load_request_schema(api_key, version), fields)


def frame_of(message: Any, correlation_id: int, client_id: str | None = "wire") -> bytes:
    """The bytes of a request, its size in front."""
    out = io.BytesIO()
    header = type(message).__header_schema__
    entity_writer(header)(
        out,
        header(
            request_api_key=type(message).__api_key__,
            request_api_version=type(message).__version__,
            correlation_id=correlation_id,
            client_id=client_id,
        ),
    )
    entity_writer(type(message))(out, message)
    return sized(out.getvalue())


def sized(body: bytes) -> bytes:
    """A body with its size in front."""
    return _SIZE.pack(len(body)) + body


def header_of(
    api_key: int, version: int, correlation_id: int = 1, client_id: bytes | None = b"wire"
) -> bytes:
    """A request header v1 of any key and version."""
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api_key, version, correlation_id, size) + (client_id or b"")


class WireClient:
    """One connection. Answers are read in the order of the requests."""

    def __init__(
        self,
        address: Address,
        *,
        timeout_s: float = TIMEOUT_S,
        receive_buffer: int | None = None,
        client_id: str = "wire",
        source_host: str | None = None,
    ) -> None:
        self._socket = socket.socket()
        if source_host is not None:
            with contextlib.suppress(OSError):  # macOS has no loopback address but 127.0.0.1
                self._socket.bind((source_host, 0))
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0
        self._expected: deque[tuple[int, Any]] = deque()

    @property
    def name(self) -> str:
        """How the broker's log calls this connection."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def send_bytes(self, data: bytes) -> None:
        """Anything. Raises ClosedByPeer."""
        try:
            self._socket.sendall(data)
        except _CLOSED as error:
            raise ClosedByPeer from error

    def frame(self, message: Any) -> bytes:
        """A request's bytes; its answer is expected next."""
        self._correlation_id += 1
        self._expected.append((self._correlation_id, message))
        return frame_of(message, self._correlation_id, self._client_id)

    def send(self, message: Any) -> None:
        """Send a request, without waiting for its answer. Raises ClosedByPeer."""
        self.send_bytes(self.frame(message))

    def receive(self) -> Any:
        """The answer to the oldest request that has none. Raises ClosedByPeer."""
        correlation_id, asked = self._expected.popleft()
        schema = load_response_schema(type(asked).__api_key__, type(asked).__version__)
        return self.parse(self.receive_frame(), schema, correlation_id)

    def receive_by_ours(self) -> Any:
        """Decode the next answer by our own messages: kio refuses a timestamp of -1."""
        correlation_id, asked = self._expected.popleft()
        key, version = int(type(asked).__api_key__), int(type(asked).__version__)
        return decode_response(key, version, correlation_id, self.receive_frame())

    @property
    def has_answer(self) -> bool:
        """Whether bytes have come that were not received yet."""
        return is_readable(self._socket, 0)

    def call(self, message: Any) -> Any:
        """Send a request and return its answer. Raises ClosedByPeer."""
        self.send(message)
        return self.receive()

    def receive_frame(self) -> bytes:
        """One frame, without its size. Raises ClosedByPeer."""
        (size,) = _SIZE.unpack(self.receive_bytes(_SIZE.size))
        return self.receive_bytes(size)

    def receive_bytes(self, size: int) -> bytes:
        """Exactly so many bytes. Raises ClosedByPeer."""
        data = bytearray(size)
        filled = 0
        while filled < size:
            try:
                received = self._socket.recv_into(memoryview(data)[filled:])
            except _CLOSED as error:
                raise ClosedByPeer from error
            if received == 0:
                raise ClosedByPeer
            filled += received
        return bytes(data)

    @staticmethod
    def parse(frame: bytes, schema: Any, correlation_id: int) -> Any:
        """An answer of that schema; nothing may be left over."""
        header, position = entity_reader(schema.__header_schema__)(frame, 0)
        assert header.correlation_id == correlation_id
        answer, size = entity_reader(schema)(frame, position)
        assert position + size == len(frame)
        return answer

    def set_timeout(self, timeout_s: float) -> None:
        """How long a call may take from now on."""
        self._socket.settimeout(timeout_s)

    def wait_for_close(self) -> bytes:
        """Everything that comes until the broker closes the connection."""
        received = bytearray()
        with contextlib.suppress(*_CLOSED):
            while data := self._socket.recv(65536):
                received += data
        return bytes(received)

    def close(self) -> None:
        """Close at once."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def produce_to(
    *batches: tuple[str | uuid.UUID, int, bytes | None],
    acks: int = -1,
    timeout_ms: int = 1_000,
    version: int = 9,
    transactional_id: str | None = None,
) -> Any:
    """Produce (topic, partition, records), each as a topic of its own."""
    return request(
        ApiKey.PRODUCE,
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout=timeout_ms,
        topic_data=[
            {
                "name": topic,
                "topic_id": topic,
                "partition_data": [{"index": partition, "records": records}],
            }
            for topic, partition, records in batches
        ],
    )


def wanted(
    partition: int,
    offset: int = 0,
    *,
    max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> dict[str, Any]:
    """One partition of a fetch."""
    return {
        "partition": partition,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_fetched_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": max_bytes,
    }


def fetch_from(
    *topics: tuple[str | uuid.UUID, Iterable[dict[str, Any]]],
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    isolation_level: int = 0,
    version: int = 12,
    session: tuple[int, int] = (0, -1),
    forgotten: Iterable[tuple[str | uuid.UUID, list[int]]] = (),
    rack: str = "",
) -> Any:
    """Fetch from (topic, partitions); a session is an id and an epoch."""
    return request(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            {"topic": topic, "topic_id": topic, "partitions": list(partitions)}
            for topic, partitions in topics
        ],
        forgotten_topics_data=[
            {"topic": topic, "topic_id": topic, "partitions": partitions}
            for topic, partitions in forgotten
        ],
        rack_id=rack,
    )


def produce_request(
    topic: str | uuid.UUID,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = 9,
    timeout_ms: int = 10_000,
) -> Any:
    """Produce one partition's records; the topic by its id from version 13."""
    batch = (topic, partition, records)
    return produce_to(batch, acks=acks, timeout_ms=timeout_ms, version=version)


def fetch_request(
    topic: str | uuid.UUID,
    offset: int,
    *,
    partition: int = 0,
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    version: int = 12,
) -> Any:
    """Fetch one partition; the topic by its id from version 13."""
    one = wanted(
        partition,
        offset,
        max_bytes=max_bytes,
        leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    return fetch_from(
        (topic, [one]),
        max_bytes=max_bytes,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        version=version,
    )


def metadata_request(*topics: str, auto_create: bool = False, version: int = 12) -> Any:
    """Metadata of these topics; of none: brokers only."""
    return request(
        ApiKey.METADATA,
        version,
        topics=[{"topic_id": None, "name": topic} for topic in topics],
        allow_auto_topic_creation=auto_create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def _build(schema: Any, fields: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(schema)
    types = {field.name: field for field in dataclasses.fields(schema)}
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in types:
            continue
        kafka_type = types[name].metadata.get("kafka_type", "")
        if kafka_type.startswith("timedelta") and isinstance(value, int):
            values[name] = timedelta(milliseconds=value)
        elif isinstance(value, list):
            item = _item_type(hints[name])
            values[name] = tuple(_build(item, v) if isinstance(v, dict) else v for v in value)
        elif isinstance(value, dict):
            values[name] = _build(_struct_type(hints[name]), value)
        else:
            values[name] = value
    return schema(**values)


def _struct_type(hint: Any) -> Any:
    """X of `X | None`."""
    return next(each for each in (*typing.get_args(hint), hint) if dataclasses.is_dataclass(each))


def _item_type(hint: Any) -> Any:
    """X of tuple[X, ...], also where None is allowed."""
    for choice in (hint, *typing.get_args(hint)):
        if typing.get_origin(choice) is tuple:
            return typing.get_args(choice)[0]
    raise TypeError(f"{hint} is not an array")
