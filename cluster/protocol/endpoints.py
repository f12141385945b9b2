"""Addresses of leaders in hints: tag 0 of Produce v10+ and Fetch v16+ responses (KIP-951)."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from cluster.protocol.writer import varint


class NodeEndpoint(NamedTuple):
    """The address of a leader in a hint."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def pack_endpoints_tag(node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged field: tag, size, value; without the preceding count of tags."""
    out = bytearray(varint(len(node_endpoints) + 1))
    for node_id, host, port, rack in node_endpoints:
        name = host.encode()
        out += struct.pack(">i", node_id)
        out += varint(len(name) + 1)
        out += name
        out += struct.pack(">i", port)
        if rack is None:
            out += b"\0"
        else:
            text = rack.encode()
            out += varint(len(text) + 1)
            out += text
        out += b"\0"
    return b"\0" + varint(len(out)) + out
