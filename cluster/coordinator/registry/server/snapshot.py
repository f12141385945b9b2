"""The registry's whole state as bytes, and back. Pure.

snapshot = magic "MLNS" | version (int 1) | last zxid | highest session id
         | session count (int) | sessions | znode count (int) | znodes, parents first
         | CRC-32C of everything before it (uint)
session  = id (long) | timeout ms (int) | password (buffer)
znode    = path | data | acl | czxid mzxid pzxid ctime mtime owner children-ever (longs)
         | version aversion (ints)
"""

import struct
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from cluster.coordinator.registry.server.acl import encode_acl, read_acl
from cluster.coordinator.registry.server.node import Node
from cluster.coordinator.registry.server.state import RegistryState
from cluster.coordinator.registry.wire.jute import (
    MalformedRecord,
    RecordReader,
    encode_buffer,
    encode_int,
    encode_long,
    encode_string,
)
from cluster.model.clocks import MonotonicMs, WallMs

_HEADER: Final = struct.Struct(">4siqqi")
_NUMBERS: Final = struct.Struct(">qqqqqqqii")
_CHECKSUM: Final = struct.Struct(">I")
_MAGIC: Final = b"MLNS"
_VERSION: Final = 1
_CHUNK_BYTES: Final = 1 << 20


def encode_snapshot(state: RegistryState) -> Iterator[bytes]:
    """The snapshot in chunks of about 1 MiB; the state must not change in between."""
    chunk = bytearray(
        _HEADER.pack(
            _MAGIC,
            _VERSION,
            state.last_zxid,
            state.sessions.highest_session_id,
            len(state.sessions),
        )
    )
    checksum = 0
    for session in state.sessions:
        chunk += encode_long(session.session_id) + encode_int(session.timeout_ms)
        chunk += encode_buffer(session.password)
    chunk += encode_int(len(state.tree))
    for path, node in state.tree.items():
        chunk += _encode_node(path, node)
        if len(chunk) >= _CHUNK_BYTES:
            checksum = crc32c(chunk, checksum)
            yield bytes(chunk)
            chunk.clear()
    checksum = crc32c(chunk, checksum)
    yield bytes(chunk) + _CHECKSUM.pack(checksum)


def decode_snapshot(snapshot: bytes, tick_time_ms: int, now_ms: MonotonicMs) -> RegistryState:
    """The state of a snapshot; the timeouts of its sessions start at `now_ms` (monotonic).

    Raises MalformedRecord when the checksum or anything else is wrong.
    """
    body_bytes = len(snapshot) - _CHECKSUM.size
    if body_bytes < _HEADER.size:
        raise MalformedRecord(f"a snapshot of {len(snapshot)} bytes")
    if crc32c(memoryview(snapshot)[:body_bytes]) != _CHECKSUM.unpack_from(snapshot, body_bytes)[0]:
        raise MalformedRecord("a wrong checksum")
    magic, version, last_zxid, highest_session_id, session_count = _HEADER.unpack_from(snapshot)
    if magic != _MAGIC or version != _VERSION:
        raise MalformedRecord(f"not a snapshot of version {_VERSION}")
    reader = RecordReader(snapshot, _HEADER.size)
    state = RegistryState(tick_time_ms)
    state.last_zxid = last_zxid
    for _ in range(session_count):
        session_id, timeout_ms = reader.read_long(), reader.read_int()
        state.sessions.open(session_id, timeout_ms, reader.read_buffer() or b"", now_ms)
    state.sessions.highest_session_id = highest_session_id
    for _ in range(reader.read_int()):
        path, node = _read_node(reader)
        state.tree.restore(path, node)
    if reader.remaining_bytes != _CHECKSUM.size:
        raise MalformedRecord(f"{reader.remaining_bytes} bytes after the last znode")
    return state


def _encode_node(path: str, node: Node) -> bytes:
    return (
        encode_string(path)
        + encode_buffer(node.data)
        + encode_acl(node.acl)
        + _NUMBERS.pack(
            node.created_zxid,
            node.modified_zxid,
            node.children_zxid,
            node.created_ms,
            node.modified_ms,
            node.ephemeral_owner,
            node.created_children,
            node.version,
            node.acl_version,
        )
    )


def _read_node(reader: RecordReader) -> tuple[str, Node]:
    path, data, acl = reader.read_string(), reader.read_buffer(), read_acl(reader)
    created_zxid, modified_zxid, children_zxid = (
        reader.read_long(),
        reader.read_long(),
        reader.read_long(),
    )
    created_ms, modified_ms, owner = reader.read_long(), reader.read_long(), reader.read_long()
    node = Node(data, acl, owner, created_zxid, WallMs(created_ms))
    node.modified_zxid = modified_zxid
    node.children_zxid = children_zxid
    node.modified_ms = WallMs(modified_ms)
    node.created_children = reader.read_long()
    node.version = reader.read_int()
    node.acl_version = reader.read_int()
    return path, node
