"""Replies and notifications of the ZooKeeper protocol, as whole frames.

frame  = int length | ReplyHeader (int xid, long zxid, int error) | the operation's record
notice = the same with xid -1, zxid -1, and WatcherEvent (int type, int state, ustring path)
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cluster.coordinator.registry.server.acl import Identity
from cluster.coordinator.registry.wire.codes import (
    NOTIFICATION_XID,
    SYNC_CONNECTED,
    EventType,
    Operation,
    RegistryError,
)
from cluster.coordinator.registry.wire.jute import (
    INT,
    encode_bool,
    encode_buffer,
    encode_int,
    encode_string,
)

_REPLY_HEADER: Final = struct.Struct(">iiqi")
_MULTI_HEADER: Final = struct.Struct(">iBi")
_NOTICE_HEADER: Final = struct.Struct(">iqiii")
_CONNECT: Final = struct.Struct(">iiq")
PASSWORD_BYTES: Final = 16


class StepResult(NamedTuple):
    """The result of one step of a multi: its record or an error."""

    operation: Operation
    error: RegistryError
    record: bytes


def encode_connect_reply(
    session_id: int, timeout_ms: int, password: bytes, *, with_read_only: bool
) -> bytes:
    """The frame that answers ConnectRequest; session id 0 and timeout 0 mean "expired"."""
    record = _CONNECT.pack(0, timeout_ms, session_id) + encode_buffer(password)
    if with_read_only:
        record += encode_bool(False)
    return INT.pack(len(record)) + record


def encode_reply(xid: int, zxid: int, error: RegistryError, record: bytes = b"") -> bytes:
    """The frame that answers one request; an error carries no record."""
    return _REPLY_HEADER.pack(len(record) + 16, xid, zxid, error) + record


def encode_notification(event_type: EventType, path: str) -> bytes:
    """The frame that notifies a client of one event."""
    record = _NOTICE_HEADER.pack(NOTIFICATION_XID, -1, 0, event_type, SYNC_CONNECTED)
    record += encode_string(path)
    return INT.pack(len(record)) + record


def encode_identities(identities: Sequence[Identity]) -> bytes:
    """`WhoAmIResponse`: a vector of ClientInfo {ustring authScheme, ustring user}; digests are sent
    without their hash.
    """
    encoded = [
        encode_string(own.scheme)
        + encode_string(own.id.partition(":")[0] if own.scheme == "digest" else own.id)
        for own in identities
    ]
    return encode_int(len(encoded)) + b"".join(encoded)


def encode_multi(results: Iterable[StepResult]) -> bytes:
    """`MultiResponse`: MultiHeader and record for each step, then a header that says done.

    A failed step's header has type -1 (error) and its record is the error code.
    """
    parts = []
    for result in results:
        if result.operation is Operation.ERROR:
            parts.append(_MULTI_HEADER.pack(Operation.ERROR, 0, result.error))
            parts.append(encode_int(result.error))
        else:
            parts.append(_MULTI_HEADER.pack(result.operation, 0, 0))
            parts.append(result.record)
    parts.append(_MULTI_HEADER.pack(Operation.ERROR, 1, -1))
    return b"".join(parts)
