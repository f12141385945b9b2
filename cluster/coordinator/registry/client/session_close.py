"""Ends the session of a dead process: a blocking client with a few records.

Works with the built-in registry and with a ZooKeeper server. It uses a plain socket, no threads and
no kazoo, because the supervisor forks.
"""

import secrets
import socket  # noqa: TID251 - its one job is this exchange
import struct
import time  # noqa: TID251 - one deadline over several blocking calls
from typing import Final

from cluster.coordinator.registry.client.registry_access import (
    DIGEST,
    NOBODY,
    SASL,
    RegistryAccess,
)
from cluster.coordinator.registry.wire.codes import AUTH_XID, Operation
from cluster.coordinator.registry.wire.digest_md5 import (
    LoginRefused,
    client_response,
    server_proof,
)
from cluster.coordinator.registry.wire.jute import (
    MalformedRecord,
    RecordReader,
    encode_buffer,
    encode_int,
    encode_string,
)
from cluster.model.errors import UserError

_CONNECT_REQUEST: Final = struct.Struct(">iiqiqi")
_CONNECT_REPLY: Final = struct.Struct(">iiq")
_REQUEST_HEADER: Final = struct.Struct(">iii")
_REPLY_HEADER: Final = struct.Struct(">iqi")
_LENGTH: Final = struct.Struct(">i")
_CLOSE_XID: Final = 1
_LOGIN_XID: Final = 2
_MAX_REPLY_BYTES: Final = 1 << 20


def close_session(
    host: str,
    port: int,
    session_id: int,
    password: bytes,
    timeout_ms: int,
    access: RegistryAccess = NOBODY,
) -> bool:
    """Attach to a session and close it, which removes its ephemeral nodes at once.

    True: the session is closed now. False: the registry knows no such session with this password,
    since it has expired or was closed. Raises OSError when the registry cannot be reached, does not
    answer within `timeout_ms` in all or refuses `access`; the session then ends by its own timeout.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    with _connected(host, port, access, timeout_ms / 1000) as connection:
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
        try:
            _prove(connection, access, deadline)
        except (LoginRefused, MalformedRecord) as refused:
            raise ConnectionError(f"the login failed: {refused}") from refused
        error, _ = _ask(connection, _CLOSE_XID, Operation.CLOSE_SESSION, b"", deadline)
        if error:
            raise ConnectionError(f"the registry answers error {error}")
        return True


def _connected(
    host: str, port: int, access: RegistryAccess, timeout_seconds: float
) -> socket.socket:
    """Connect, with TLS if `access` says so. Raises OSError."""
    context = None
    if access.tls is not None:
        from cluster.runtime.tls_context import client_context

        try:
            context = client_context(access.tls)
        except UserError as unusable:
            raise ConnectionError(str(unusable)) from unusable
    plain = socket.create_connection((host, port), timeout=timeout_seconds)
    if context is None:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise


def _prove(connection: socket.socket, access: RegistryAccess, deadline: float) -> None:
    """Authenticate. Raises LoginRefused, MalformedRecord or OSError."""
    if access.scheme == DIGEST:
        credentials = f"{access.user}:{access.password}".encode()
        record = encode_int(0) + encode_string(DIGEST) + encode_buffer(credentials)
        error, _ = _ask(connection, AUTH_XID, Operation.AUTH, record, deadline)
        if error:
            raise LoginRefused(f"error {error}")
    elif access.scheme == SASL:
        challenge = _login_step(connection, b"", deadline)
        login = challenge, access.user, access.password, secrets.token_hex(16)
        if _login_step(connection, client_response(*login), deadline) != server_proof(*login):
            raise LoginRefused("the registry does not know the password")


def _login_step(connection: socket.socket, token: bytes, deadline: float) -> bytes:
    record = encode_buffer(token)
    error, answer = _ask(connection, _LOGIN_XID, Operation.SASL, record, deadline)
    if error:
        raise LoginRefused(f"error {error}")
    return RecordReader(answer).read_buffer() or b""


def _ask(
    connection: socket.socket, xid: int, operation: Operation, record: bytes, deadline: float
) -> tuple[int, bytes]:
    """The error code and the record of the answer; skips notifications before it."""
    header = _REQUEST_HEADER.pack(8 + len(record), xid, operation)
    connection.sendall(header + record)
    while True:
        reply = _receive_record(connection, deadline)
        if len(reply) < _REPLY_HEADER.size:
            raise ConnectionError("not an answer of a registry")
        answered, _, error = _REPLY_HEADER.unpack_from(reply)
        if answered == xid:
            return error, reply[_REPLY_HEADER.size :]


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
