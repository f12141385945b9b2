"""Ends a session in the name of its dead owner: a blocking client of four records.

Works on the built-in registry and on a ZooKeeper server. A plain socket, no threads and no kazoo,
because the supervisor forks.
"""

import socket  # noqa: TID251 - its one job is this exchange
import struct
import time  # noqa: TID251 - one deadline over several blocking calls
from typing import Final

_CONNECT_REQUEST: Final = struct.Struct(">iiqiqi")
_CONNECT_REPLY: Final = struct.Struct(">iiq")
_CLOSE_REQUEST: Final = struct.Struct(">iii")
_REPLY_HEADER: Final = struct.Struct(">iqi")
_LENGTH: Final = struct.Struct(">i")
_CLOSE_XID: Final = 1
_CLOSE_SESSION: Final = -11
_MAX_REPLY_BYTES: Final = 1 << 20


def close_session(host: str, port: int, session_id: int, password: bytes, timeout_ms: int) -> bool:
    """Attach to a session and close it, which removes its ephemeral nodes at once.

    True: it is closed now. False: the registry knows no such session with this password (it has
    expired, or was closed). Raises OSError when the registry cannot be reached or does not answer
    within `timeout_ms` in all; the session then ends by its own timeout.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    with socket.create_connection((host, port), timeout=timeout_ms / 1000) as connection:
        connect = _CONNECT_REQUEST.pack(
            _CONNECT_REQUEST.size - 4 + len(password) + 1,
            0,
            0,
            timeout_ms,
            session_id,
            len(password),
        )
        connection.sendall(connect + password + b"\0")
        reply = _receive_record(connection, deadline)
        if len(reply) < _CONNECT_REPLY.size:
            raise ConnectionError("not an answer of a registry")
        _, granted_timeout_ms, granted_session_id = _CONNECT_REPLY.unpack_from(reply)
        if granted_timeout_ms <= 0 or granted_session_id != session_id:
            return False
        connection.sendall(_CLOSE_REQUEST.pack(8, _CLOSE_XID, _CLOSE_SESSION))
        while True:
            reply = _receive_record(connection, deadline)
            if len(reply) < _REPLY_HEADER.size:
                raise ConnectionError("not an answer of a registry")
            xid, _, error = _REPLY_HEADER.unpack_from(reply)
            if xid == _CLOSE_XID:
                return bool(error == 0)


def _receive_record(connection: socket.socket, deadline: float) -> bytes:
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size, deadline))
    if not 0 <= length <= _MAX_REPLY_BYTES:
        raise ConnectionError("not an answer of a registry")
    return _receive_exactly(connection, length, deadline)


def _receive_exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            raise TimeoutError("the registry did not answer in time")
        connection.settimeout(remaining_seconds)
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the registry closed the connection")
        received += chunk
    return bytes(received)
