"""Asks a broker for its view of the cluster, by a hand-packed Metadata request.

Metadata version 2 is the oldest with a cluster id and a controller.
"""

import socket
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

_CLIENT_ID: Final = b"milena-supervisor"
_BODY: Final = struct.pack(">hhih", 3, 2, 1, len(_CLIENT_ID)) + _CLIENT_ID + struct.pack(">i", 0)
"""Key 3, version 2, correlation id 1, client id; no topics."""
_REQUEST: Final = struct.pack(">i", len(_BODY)) + _BODY
_RESPONSE_MAX_BYTES: Final = 1 << 20


class View(NamedTuple):
    """The cluster as one broker sees it; a controller of -1 means that there is none."""

    cluster_id: str | None
    controller: int
    brokers: frozenset[int]


def ask_broker(host: str, port: int, timeout_s: float) -> View | None:
    """The broker's view; None if it does not answer within `timeout_s` or not with valid data."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(_REQUEST)
            size = struct.unpack(">i", _receive(connection, 4))[0]
            if not 4 <= size <= _RESPONSE_MAX_BYTES:
                return None
            return _parse(_receive(connection, size))
    except (OSError, EOFError, struct.error, UnicodeDecodeError):
        return None


def agreed_view(views: Iterable[View | None], brokers: frozenset[int]) -> View | None:
    """The common view if every broker sees exactly `brokers` and the same live controller."""
    seen = list(views)
    if not seen or seen[0] is None or any(view != seen[0] for view in seen):
        return None
    view = seen[0]
    return view if view.brokers == brokers and view.controller in brokers else None


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _parse(response: bytes) -> View:
    """A response is: correlation id, [node id, host, port, rack], cluster id, controller id, ..."""
    position = 4
    (broker_count,) = struct.unpack_from(">i", response, position)
    position += 4
    brokers = set()
    for _ in range(broker_count):
        brokers.add(struct.unpack_from(">i", response, position)[0])
        _host, position = _string(response, position + 4)
        _rack, position = _string(response, position + 4)
    cluster_id, position = _string(response, position)
    (controller,) = struct.unpack_from(">i", response, position)
    return View(cluster_id, controller, frozenset(brokers))


def _string(response: bytes, position: int) -> tuple[str | None, int]:
    (size,) = struct.unpack_from(">h", response, position)
    position += 2
    if size < 0:
        return None, position
    return response[position : position + size].decode(), position + size
