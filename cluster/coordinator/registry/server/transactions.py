"""What the journal keeps: each committed write as decided changes, and their byte layout.

    transaction = zxid (long) | wall ms (long) | vector of changes
    change      = kind (int) | its fields in the order of the class

Everything is decided already (sequential names are complete, sessions' ephemeral nodes are listed),
so replaying needs no checks and gives the same tree.
"""

from typing import Final, NamedTuple

from cluster.coordinator.registry.server.acl import OPEN_ACL, Acl, encode_acl, read_acl
from cluster.coordinator.registry.wire.jute import (
    MalformedRecord,
    RecordReader,
    encode_buffer,
    encode_int,
    encode_long,
    encode_string,
)
from cluster.model.clocks import WallMs


class NodeCreated(NamedTuple):
    """A znode exists; an owner of 0 is a persistent one (see node.py for the others)."""

    path: str
    data: bytes | None
    acl: Acl
    ephemeral_owner: int


class NodeDeleted(NamedTuple):
    """A znode without children was deleted; `acl` said who could read it.

    The ACL is not journaled: it is needed only for the notifications that are sent at once.
    """

    path: str
    acl: Acl = OPEN_ACL


class DataChanged(NamedTuple):
    """A znode has new data and the next version."""

    path: str
    data: bytes | None


class AclChanged(NamedTuple):
    """A znode has a new ACL and the next ACL version."""

    path: str
    acl: Acl


class SessionOpened(NamedTuple):
    """A client has a session; clients with the password may attach to it."""

    session_id: int
    timeout_ms: int
    password: bytes


class SessionClosed(NamedTuple):
    """A session has ended; the deletions of its ephemeral nodes come before it."""

    session_id: int


TreeChange = NodeCreated | NodeDeleted | DataChanged | AclChanged
SessionChange = SessionOpened | SessionClosed
Change = TreeChange | SessionChange


class Transaction(NamedTuple):
    """One step of the total order: all its changes have the same zxid."""

    zxid: int
    wall_ms: WallMs
    changes: tuple[Change, ...]


_NODE_CREATED: Final = 1
_NODE_DELETED: Final = 2
_DATA_CHANGED: Final = 3
_ACL_CHANGED: Final = 4
_SESSION_OPENED: Final = 5
_SESSION_CLOSED: Final = 6


def encode_transaction(transaction: Transaction) -> bytes:
    """The journal's payload for one transaction."""
    parts = [
        encode_long(transaction.zxid),
        encode_long(transaction.wall_ms),
        encode_int(len(transaction.changes)),
    ]
    parts.extend(map(_encode_change, transaction.changes))
    return b"".join(parts)


def decode_transaction(payload: bytes) -> Transaction:
    """The transaction of a journal payload. Raises MalformedRecord."""
    reader = RecordReader(payload)
    transaction = Transaction(
        reader.read_long(), WallMs(reader.read_long()), reader.read_vector(_read_change)
    )
    if reader.remaining_bytes:
        raise MalformedRecord(f"{reader.remaining_bytes} bytes after the transaction")
    return transaction


def _encode_change(change: Change) -> bytes:
    match change:
        case NodeCreated(path, data, acl, owner):
            return (
                encode_int(_NODE_CREATED)
                + encode_string(path)
                + encode_buffer(data)
                + encode_acl(acl)
                + encode_long(owner)
            )
        case NodeDeleted(path, _):
            return encode_int(_NODE_DELETED) + encode_string(path)
        case DataChanged(path, data):
            return encode_int(_DATA_CHANGED) + encode_string(path) + encode_buffer(data)
        case AclChanged(path, acl):
            return encode_int(_ACL_CHANGED) + encode_string(path) + encode_acl(acl)
        case SessionOpened(session_id, timeout_ms, password):
            return (
                encode_int(_SESSION_OPENED)
                + encode_long(session_id)
                + encode_int(timeout_ms)
                + encode_buffer(password)
            )
        case SessionClosed(session_id):
            return encode_int(_SESSION_CLOSED) + encode_long(session_id)


def _read_change(reader: RecordReader) -> Change:
    kind = reader.read_int()
    if kind == _NODE_CREATED:
        return NodeCreated(
            reader.read_string(), reader.read_buffer(), read_acl(reader), reader.read_long()
        )
    if kind == _NODE_DELETED:
        return NodeDeleted(reader.read_string())
    if kind == _DATA_CHANGED:
        return DataChanged(reader.read_string(), reader.read_buffer())
    if kind == _ACL_CHANGED:
        return AclChanged(reader.read_string(), read_acl(reader))
    if kind == _SESSION_OPENED:
        return SessionOpened(reader.read_long(), reader.read_int(), reader.read_buffer() or b"")
    if kind == _SESSION_CLOSED:
        return SessionClosed(reader.read_long())
    raise MalformedRecord(f"change of kind {kind}")
