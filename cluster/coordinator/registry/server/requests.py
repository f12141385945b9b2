"""Requests of the ZooKeeper protocol: one class per jute record, and how its bytes are read.

A frame is a 4-byte length and a record. The first record of a connection is ConnectRequest; every
later one is RequestHeader (int xid, int operation) and the operation's own record.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from cluster.coordinator.registry.server.acl import Acl, read_acl
from cluster.coordinator.registry.wire.codes import Operation
from cluster.coordinator.registry.wire.jute import MalformedRecord, RecordReader


class ConnectRequest(NamedTuple):
    """Asks for a new session, or with a session id for an existing one."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None
    """None: a client from before 3.4, which also expects no such byte in the answer."""


class CreateRequest(NamedTuple):
    """create, create2, createContainer and createTTL."""

    path: str
    data: bytes | None
    acl: Acl
    flags: int
    ttl_ms: int | None


class DeleteRequest(NamedTuple):
    """delete."""

    path: str
    version: int


class SetDataRequest(NamedTuple):
    """setData."""

    path: str
    data: bytes | None
    version: int


class SetAclRequest(NamedTuple):
    """setACL; the version is that of the ACL."""

    path: str
    acl: Acl
    version: int


class CheckVersionRequest(NamedTuple):
    """check: a step of multi that only compares the version."""

    path: str
    version: int


class DeleteContainerRequest(NamedTuple):
    """deleteContainer: deletes a container or TTL node that has no children."""

    path: str


class WatchableRequest(NamedTuple):
    """exists, getData, getChildren and getChildren2."""

    path: str
    watch: bool


class PathRequest(NamedTuple):
    """getACL, sync, getEphemerals, getAllChildrenNumber."""

    path: str


class AuthRequest(NamedTuple):
    """auth: proves an identity."""

    scheme: str
    credentials: bytes


class SaslRequest(NamedTuple):
    """sasl: one token of a login."""

    token: bytes


class SetWatchesRequest(NamedTuple):
    """setWatches and setWatches2: the watches of a reconnected client, and the zxid up to which it
    has been notified.
    """

    relative_zxid: int
    data: tuple[str, ...]
    exists: tuple[str, ...]
    children: tuple[str, ...]
    persistent: tuple[str, ...]
    recursive: tuple[str, ...]


class AddWatchRequest(NamedTuple):
    """addWatch."""

    path: str
    mode: int


class WatchesRequest(NamedTuple):
    """checkWatches and removeWatches."""

    path: str
    watcher_type: int


class Step(NamedTuple):
    """One operation inside multi or multiRead."""

    operation: Operation
    request: "WriteRequest | WatchableRequest"


class MultiRequest(NamedTuple):
    """multi and multiRead."""

    steps: tuple[Step, ...]


class EmptyRequest(NamedTuple):
    """ping, closeSession, whoAmI, which have only a header. reconfig is refused unread."""


WriteRequest = (
    CreateRequest
    | DeleteRequest
    | SetDataRequest
    | SetAclRequest
    | CheckVersionRequest
    | DeleteContainerRequest
)
Request = (
    WriteRequest
    | WatchableRequest
    | PathRequest
    | AuthRequest
    | SaslRequest
    | SetWatchesRequest
    | AddWatchRequest
    | WatchesRequest
    | MultiRequest
    | EmptyRequest
)


def decode_connect(record: bytes) -> ConnectRequest:
    """The first record of a connection. Raises MalformedRecord. Fields of later clients behind it
    are ignored, as by ZooKeeper.
    """
    reader = RecordReader(record)
    protocol_version, last_zxid_seen = reader.read_int(), reader.read_long()
    timeout_ms, session_id = reader.read_int(), reader.read_long()
    password = reader.read_buffer() or b""
    read_only = reader.read_bool() if reader.remaining_bytes else None
    return ConnectRequest(
        protocol_version, last_zxid_seen, timeout_ms, session_id, password, read_only
    )


def decode_request(operation: int, reader: RecordReader) -> Request | None:
    """The record after a request header; None for an operation that is not implemented. Raises
    MalformedRecord. Bytes after the record are ignored, as by ZooKeeper.
    """
    decode = _DECODERS.get(operation)
    return None if decode is None else decode(reader)


def _read_create(reader: RecordReader) -> CreateRequest:
    path, data, acl = reader.read_string(), reader.read_buffer(), read_acl(reader)
    return CreateRequest(path, data, acl, reader.read_int(), None)


def _read_create_ttl(reader: RecordReader) -> CreateRequest:
    return _read_create(reader)._replace(ttl_ms=reader.read_long())


def _read_delete(reader: RecordReader) -> DeleteRequest:
    return DeleteRequest(reader.read_string(), reader.read_int())


def _read_set_data(reader: RecordReader) -> SetDataRequest:
    return SetDataRequest(reader.read_string(), reader.read_buffer(), reader.read_int())


def _read_set_acl(reader: RecordReader) -> SetAclRequest:
    return SetAclRequest(reader.read_string(), read_acl(reader), reader.read_int())


def _read_check(reader: RecordReader) -> CheckVersionRequest:
    return CheckVersionRequest(reader.read_string(), reader.read_int())


def _read_delete_container(reader: RecordReader) -> DeleteContainerRequest:
    return DeleteContainerRequest(reader.read_string())


def _read_watchable(reader: RecordReader) -> WatchableRequest:
    return WatchableRequest(reader.read_string(), reader.read_bool())


def _read_path(reader: RecordReader) -> PathRequest:
    return PathRequest(reader.read_string())


def _read_auth(reader: RecordReader) -> AuthRequest:
    reader.read_int()  # `type`, which nothing has ever used
    return AuthRequest(reader.read_string(), reader.read_buffer() or b"")


def _read_sasl(reader: RecordReader) -> SaslRequest:
    return SaslRequest(reader.read_buffer() or b"")


def _read_paths(reader: RecordReader) -> tuple[str, ...]:
    return reader.read_vector(RecordReader.read_string)


def _read_set_watches(reader: RecordReader) -> SetWatchesRequest:
    relative_zxid = reader.read_long()
    data, exists, children = _read_paths(reader), _read_paths(reader), _read_paths(reader)
    return SetWatchesRequest(relative_zxid, data, exists, children, (), ())


def _read_set_watches2(reader: RecordReader) -> SetWatchesRequest:
    first = _read_set_watches(reader)
    return first._replace(persistent=_read_paths(reader), recursive=_read_paths(reader))


def _read_add_watch(reader: RecordReader) -> AddWatchRequest:
    return AddWatchRequest(reader.read_string(), reader.read_int())


def _read_watches(reader: RecordReader) -> WatchesRequest:
    return WatchesRequest(reader.read_string(), reader.read_int())


def _read_empty(_reader: RecordReader) -> EmptyRequest:
    return EmptyRequest()


_STEP_DECODERS: Final[dict[int, Callable[[RecordReader], WriteRequest]]] = {
    Operation.CREATE: _read_create,
    Operation.CREATE2: _read_create,
    Operation.CREATE_CONTAINER: _read_create,
    Operation.CREATE_TTL: _read_create_ttl,
    Operation.DELETE: _read_delete,
    Operation.SET_DATA: _read_set_data,
    Operation.CHECK: _read_check,
}
_READ_STEP_DECODERS: Final[dict[int, Callable[[RecordReader], WatchableRequest]]] = {
    Operation.GET_DATA: _read_watchable,
    Operation.GET_CHILDREN: _read_watchable,
}


def _read_steps(
    reader: RecordReader,
    decoders: dict[int, Callable[[RecordReader], WriteRequest]]
    | dict[int, Callable[[RecordReader], WatchableRequest]],
) -> MultiRequest:
    """MultiHeader {int type, boolean done, int err} and record, until a header that says done."""
    steps: list[Step] = []
    while True:
        operation, done, _ = reader.read_int(), reader.read_bool(), reader.read_int()
        if done:
            return MultiRequest(tuple(steps))
        decode = decoders.get(operation)
        if decode is None:
            raise MalformedRecord(f"operation {operation} inside a multi")
        steps.append(Step(Operation(operation), decode(reader)))


def _read_multi(reader: RecordReader) -> MultiRequest:
    return _read_steps(reader, _STEP_DECODERS)


def _read_multi_read(reader: RecordReader) -> MultiRequest:
    return _read_steps(reader, _READ_STEP_DECODERS)


_DECODERS: Final[dict[int, Callable[[RecordReader], Request]]] = {
    Operation.CREATE: _read_create,
    Operation.CREATE2: _read_create,
    Operation.CREATE_CONTAINER: _read_create,
    Operation.CREATE_TTL: _read_create_ttl,
    Operation.DELETE: _read_delete,
    Operation.DELETE_CONTAINER: _read_delete_container,
    Operation.EXISTS: _read_watchable,
    Operation.GET_DATA: _read_watchable,
    Operation.GET_CHILDREN: _read_watchable,
    Operation.GET_CHILDREN2: _read_watchable,
    Operation.SET_DATA: _read_set_data,
    Operation.GET_ACL: _read_path,
    Operation.SET_ACL: _read_set_acl,
    Operation.SYNC: _read_path,
    Operation.PING: _read_empty,
    Operation.CHECK: _read_check,
    Operation.MULTI: _read_multi,
    Operation.MULTI_READ: _read_multi_read,
    Operation.AUTH: _read_auth,
    Operation.SASL: _read_sasl,
    Operation.SET_WATCHES: _read_set_watches,
    Operation.SET_WATCHES2: _read_set_watches2,
    Operation.ADD_WATCH: _read_add_watch,
    Operation.CHECK_WATCHES: _read_watches,
    Operation.REMOVE_WATCHES: _read_watches,
    Operation.GET_EPHEMERALS: _read_path,
    Operation.GET_ALL_CHILDREN_NUMBER: _read_path,
    Operation.WHO_AM_I: _read_empty,
    Operation.RECONFIG: _read_empty,
    Operation.CLOSE_SESSION: _read_empty,
}
