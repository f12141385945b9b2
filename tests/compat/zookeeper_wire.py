"""A client of the ZooKeeper protocol that hides nothing: any request, well formed or not, and every
field of its answer. Own encoding, so that it shares no mistake with the server.
"""

import contextlib
import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

HOST: Final = "127.0.0.1"
NO_PASSWORD: Final = bytes(16)
OPEN_ACL: Final = ((31, "world", "anyone"),)

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA = 1, 2, 3, 4, 5
GET_ACL, SET_ACL, GET_CHILDREN, SYNC, PING = 6, 7, 8, 9, 11
GET_CHILDREN2, CHECK, MULTI, CREATE2, RECONFIG = 12, 13, 14, 15, 16
CHECK_WATCHES, REMOVE_WATCHES, CREATE_CONTAINER, DELETE_CONTAINER = 17, 18, 19, 20
CREATE_TTL, MULTI_READ, AUTH, SET_WATCHES, SASL = 21, 22, 100, 101, 102
GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER, SET_WATCHES2 = 103, 104, 105
ADD_WATCH, WHO_AM_I, CLOSE_SESSION = 106, 107, -11

PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, TTL_SEQUENTIAL = range(7)


class Closed(Exception):
    """The server closed the connection."""


class Stat(NamedTuple):
    """jute `Stat`."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Event(NamedTuple):
    """jute `WatcherEvent`."""

    type: int
    state: int
    path: str


class Reply(NamedTuple):
    """One reply; `fields` is the decoded record, `rest` the bytes that remained."""

    xid: int
    zxid: int
    error: int
    fields: tuple[Any, ...]
    rest: bytes


def integer(number: int) -> bytes:
    """jute int."""
    return struct.pack(">i", number)


def long(number: int) -> bytes:
    """jute long."""
    return struct.pack(">q", number)


def boolean(value: bool) -> bytes:
    """jute boolean."""
    return b"\1" if value else b"\0"


def buffer(content: bytes | None) -> bytes:
    """jute buffer."""
    return integer(-1) if content is None else integer(len(content)) + content


def text(content: str) -> bytes:
    """jute ustring."""
    return buffer(content.encode())


def texts(*contents: str) -> bytes:
    """jute vector<ustring>."""
    return integer(len(contents)) + b"".join(map(text, contents))


def acl_list(acl: tuple[tuple[int, str, str], ...]) -> bytes:
    """jute vector<ACL>."""
    entries = [integer(perms) + text(scheme) + text(name) for perms, scheme, name in acl]
    return integer(len(entries)) + b"".join(entries)


def create(
    path: str,
    data: bytes | None = b"",
    flags: int = 0,
    acl: tuple[tuple[int, str, str], ...] = OPEN_ACL,
) -> bytes:
    """CreateRequest; with `long(ttl)` behind it CreateTTLRequest."""
    return text(path) + buffer(data) + acl_list(acl) + integer(flags)


def delete(path: str, version: int = -1) -> bytes:
    """DeleteRequest, CheckVersionRequest."""
    return text(path) + integer(version)


def set_data(path: str, data: bytes | None, version: int = -1) -> bytes:
    """SetDataRequest."""
    return text(path) + buffer(data) + integer(version)


def watchable(path: str, *, watch: bool = False) -> bytes:
    """ExistsRequest, GetDataRequest, GetChildrenRequest, GetChildren2Request."""
    return text(path) + boolean(watch)


def multi(*steps: tuple[int, bytes]) -> bytes:
    """MultiTransactionRecord."""
    parts = [integer(kind) + boolean(False) + integer(-1) + record for kind, record in steps]
    return b"".join(parts) + integer(-1) + boolean(True) + integer(-1)


class _Reader:
    def __init__(self, record: bytes) -> None:
        self.rest = record

    def take(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize(layout)
        values, self.rest = struct.unpack(layout, self.rest[:size]), self.rest[size:]
        return values

    def integer(self) -> int:
        number: int = self.take(">i")[0]
        return number

    def buffer(self) -> bytes | None:
        size = self.integer()
        if size < 0:
            return None
        content, self.rest = self.rest[:size], self.rest[size:]
        return content

    def text(self) -> str | None:
        content = self.buffer()
        return None if content is None else content.decode()

    def texts(self) -> list[str | None]:
        return [self.text() for _ in range(self.integer())]

    def stat(self) -> Stat:
        return Stat(*self.take(">qqqqiiiqiiq"))

    def acl(self) -> list[tuple[int, str | None, str | None]]:
        return [(self.integer(), self.text(), self.text()) for _ in range(self.integer())]

    def multi(self) -> list[tuple[Any, ...]]:
        results: list[tuple[Any, ...]] = []
        while True:
            kind, is_done, error = self.take(">i?i")
            if is_done:
                return [*results, (kind, error)]
            results.append((kind, error, *self.fields("e" if kind == -1 else _LAYOUTS[kind])))

    def fields(self, layout: str) -> tuple[Any, ...]:
        read = {
            "e": self.integer,
            "b": self.buffer,
            "t": self.text,
            "T": lambda: sorted(self.texts(), key=str),
            "s": self.stat,
            "a": lambda: sorted(self.acl(), key=str),
            "m": self.multi,
            "i": lambda: sorted((self.text(), self.text()) for _ in range(self.integer())),
        }
        return tuple(read[kind]() for kind in layout)


_LAYOUTS: Final = {
    CREATE: "t",
    CREATE2: "ts",
    CREATE_CONTAINER: "ts",
    CREATE_TTL: "ts",
    DELETE: "",
    DELETE_CONTAINER: "",
    EXISTS: "s",
    GET_DATA: "bs",
    SET_DATA: "s",
    GET_ACL: "as",
    SET_ACL: "s",
    GET_CHILDREN: "T",
    GET_CHILDREN2: "Ts",
    SYNC: "t",
    CHECK: "",
    MULTI: "m",
    MULTI_READ: "m",
    GET_EPHEMERALS: "T",
    GET_ALL_CHILDREN_NUMBER: "e",
    ADD_WATCH: "e",
    WHO_AM_I: "i",
}


@dataclass
class WireClient:
    """One connection. `events` holds, in order of arrival, the notifications not yet looked at."""

    port: int
    timeout_seconds: float = 10.0
    events: list[Event] = field(default_factory=list)
    session_id: int = 0
    password: bytes = NO_PASSWORD
    granted_timeout_ms: int = 0
    _next_xid: int = 1

    def open(self) -> Self:
        """Connect the socket alone."""
        self._socket = socket.create_connection((HOST, self.port), self.timeout_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def connect(
        self,
        *,
        timeout_ms: int = 4_000,
        session_id: int = 0,
        password: bytes = NO_PASSWORD,
        last_zxid: int = 0,
        read_only: bool | None = False,
    ) -> bytes:
        """Ask for a session; the whole ConnectResponse. Raises Closed."""
        self.open()
        record = struct.pack(">iqiq", 0, last_zxid, timeout_ms, session_id) + buffer(password)
        self.send_frame(record + (b"" if read_only is None else boolean(read_only)))
        response = self.receive_frame()
        _, self.granted_timeout_ms, self.session_id = struct.unpack_from(">iiq", response)
        self.password = response[20:36]
        return response

    def call(self, operation: int, record: bytes = b"", *, xid: int | None = None) -> Reply:
        """One request and its answer; events that come before it are kept. Raises Closed."""
        if operation == PING and xid is None:
            xid = -2  # the reply to a ping has this xid, whatever xid the request had
        sent_xid = self.send(operation, record, xid=xid)
        while True:
            reply = self.receive(operation)
            if reply is not None:
                assert reply.xid == sent_xid
                return reply

    def send(self, operation: int, record: bytes = b"", *, xid: int | None = None) -> int:
        """A request without waiting for its answer; its xid."""
        if xid is None:
            xid, self._next_xid = self._next_xid, self._next_xid + 1
        self.send_frame(struct.pack(">ii", xid, operation) + record)
        return xid

    def receive(self, operation: int) -> Reply | None:
        """The next frame; None if it was an event, which is kept."""
        frame = self.receive_frame()
        xid, zxid, error = struct.unpack_from(">iqi", frame)
        reader = _Reader(frame[16:])
        if xid == -1:
            kind, state = reader.take(">ii")
            self.events.append(Event(kind, state, reader.text() or ""))
            assert (zxid, error, reader.rest) == (-1, 0, b"")
            return None
        fields: tuple[Any, ...] = ()
        if reader.rest:
            fields = reader.fields(_LAYOUTS.get(operation, ""))
        return Reply(xid, zxid, error, fields, reader.rest)

    def receive_event(self) -> Event:
        """The oldest event not yet looked at; waits for one."""
        while not self.events:
            assert self.receive(0) is None
        return self.events.pop(0)

    def send_frame(self, record: bytes) -> None:
        """Length and record."""
        self.send_bytes(integer(len(record)) + record)

    def send_bytes(self, content: bytes) -> None:
        """Anything at all. Raises Closed."""
        try:
            self._socket.sendall(content)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def receive_frame(self) -> bytes:
        """The next record. Raises Closed."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def fileno(self) -> int:
        """Readable when something has come."""
        return self._socket.fileno()

    def drop(self) -> None:
        """Close the socket without a goodbye."""
        self._socket.close()

    def end(self) -> None:
        """Close the session as far as that goes, so that it takes no zxid at a later time."""
        with contextlib.suppress(OSError, Closed, AttributeError):
            self.send(CLOSE_SESSION)
            while self.receive_frame():
                pass
        with contextlib.suppress(AttributeError):
            self._socket.close()

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self._socket.recv(size - len(received))
            except ConnectionResetError:
                raise Closed from None
            if not chunk:
                raise Closed
            received += chunk
        return bytes(received)
