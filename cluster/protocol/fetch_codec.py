"""Fetch (API key 1), versions 4-18: responses around record slices; requests: see fetch_request.

    v4  throttle_time_ms
        [topic [partition error high_watermark last_stable_offset aborted records]]
    v5  log_start_offset; v7 error and session_id; v11 preferred_read_replica
    v12 compact, diverging_epoch and current_leader by tag; v13 topic ids
    v16 node_endpoints by tag (KIP-951)

Record bytes never pass through here: the packer leaves the caller's own objects between the bytes.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from cluster.protocol.endpoints import NodeEndpoint, pack_endpoints_tag
from cluster.protocol.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    scan_fetch_request,
)
from cluster.protocol.writer import VARINTS, uuid_bytes, varint

__all__ = [
    "ERROR_CODE",
    "RECORDS_SIZE_BYTES",
    "FetchPartition",
    "FetchRequest",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "ForgottenTopic",
    "NodeEndpoint",
    "fetch_response_size",
    "pack_fetch_response",
    "scan_fetch_request",
]

_SESSIONS: Final = 7
_FLEXIBLE: Final = 12
_TOPIC_IDS: Final = 13
_ENDPOINTS: Final = 16


class FetchedPartition(NamedTuple):
    """One partition's part of a response."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """The producer id and first offset of each; None unless the client reads committed records
    only."""
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """The epoch, and its end offset, where the client's log diverges from ours (KIP-595)."""
    current_leader: tuple[int, int] | None = None
    """The id and epoch of the leader to ask instead (KIP-951)."""
    records_size_bytes: int = 0
    records: object | None = None
    """Any object that represents `records_size_bytes` of record batches; passed on untouched."""


ERROR_CODE: Final = 1
RECORDS_SIZE_BYTES: Final = 9
"""The indices of those fields: access by index costs half of access by name."""

FetchedTopic = tuple[str | None, UUID | None, Sequence[FetchedPartition]]


_size: Final = struct.Struct(">i").pack
_head_v4: Final = struct.Struct(">iii").pack
_head_v7: Final = struct.Struct(">iihii").pack
_head_v12: Final = struct.Struct(">ixihi").pack
_partition_head_v4: Final = struct.Struct(">ihqq").pack
_partition_head: Final = struct.Struct(">ihqqq").pack
_aborted: Final = struct.Struct(">qq").pack
_tagged_aborted: Final = struct.Struct(">qqx").pack
_pack_i16: Final = struct.Struct(">h").pack
_pack_i32: Final = struct.Struct(">i").pack
_diverging_tag: Final = struct.Struct(">BBiqx").pack
_leader_tag: Final = struct.Struct(">BBiix").pack
_UNKNOWN: Final = (-1, -1)
_ONE_BYTE: Final = 126
"""The largest count whose successor is a varint of one byte."""
_TABLED: Final = len(VARINTS) - 1
"""Counts below this have the varint of their successor in a table."""


def pack_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[FetchedTopic],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[object]:
    """The frame of a fetch response: bytes and, untouched between them, the `records` objects.

    The first item begins with the size of the whole frame.
    """
    if version >= _FLEXIBLE:
        head = _head_v12(correlation_id, throttle_time_ms, error_code, session_id)
        return _pack_compact(version, bytearray(head), topics, node_endpoints)
    if version >= _SESSIONS:
        head = _head_v7(correlation_id, throttle_time_ms, error_code, session_id, len(topics))
    else:
        head = _head_v4(correlation_id, throttle_time_ms, len(topics))
    return _pack_plain(version, bytearray(head), topics)


def fetch_response_size(
    version: int, topics: Sequence[FetchedTopic], node_endpoints: Sequence[NodeEndpoint] = ()
) -> int:
    """The size of the response that `pack_fetch_response` would make, including records."""
    if version >= _FLEXIBLE:
        return _compact_size(version, topics, node_endpoints)
    size_bytes = 22 if version >= _SESSIONS else 16  # up to the topics
    partition_bytes = 42 if version >= 11 else 38 if version >= 5 else 30
    for topic, _, partitions in topics:
        size_bytes += 6 + len((topic or "").encode()) + partition_bytes * len(partitions)
        for each in partitions:
            size_bytes += each[9] + 16 * len(each[5] or ())
    return size_bytes


def _compact_size(
    version: int, topics: Sequence[FetchedTopic], node_endpoints: Sequence[NodeEndpoint]
) -> int:
    # Varints of one byte are counted here; `_extra` adds the bytes of longer ones.
    size_bytes = 21  # up to the topics, their count, and the tags at the end
    if len(topics) > _ONE_BYTE:
        size_bytes += _extra(len(topics))
    for topic, _, partitions in topics:
        if version >= _TOPIC_IDS:
            size_bytes += 18
        else:
            name_bytes = len((topic or "").encode())
            size_bytes += name_bytes + 3
            if name_bytes > _ONE_BYTE:
                size_bytes += _extra(name_bytes)
        if len(partitions) > _ONE_BYTE:
            size_bytes += _extra(len(partitions))
        for _, _, _, _, _, aborted, _, diverging, leader, records_bytes, _ in partitions:
            size_bytes += 37 + records_bytes
            if records_bytes > _ONE_BYTE:
                size_bytes += ((records_bytes + 1).bit_length() - 1) // 7  # as `_extra`
            if aborted:
                size_bytes += 17 * len(aborted)
                if len(aborted) > _ONE_BYTE:
                    size_bytes += _extra(len(aborted))
            if diverging is not None or leader is not None:
                size_bytes += len(_hint_tags(diverging, leader)) - 1
    if node_endpoints and version >= _ENDPOINTS:
        size_bytes += len(pack_endpoints_tag(node_endpoints))
    return size_bytes


def _extra(count: int) -> int:
    """The bytes of the varint of count + 1 beyond the first."""
    return ((count + 1).bit_length() - 1) // 7


def _pack_plain(version: int, out: bytearray, topics: Sequence[FetchedTopic]) -> list[object]:
    items: list[object] = []
    total = 0
    for topic, _, partitions in topics:
        name = (topic or "").encode()
        out += _pack_i16(len(name))
        out += name
        out += _pack_i32(len(partitions))
        for each in partitions:
            index, error, high, stable, start, aborted, preferred, _, _, size, records = each
            if version >= 5:
                out += _partition_head(index, error, high, stable, start)
            else:
                out += _partition_head_v4(index, error, high, stable)
            if aborted is None:
                out += b"\xff\xff\xff\xff"
            else:
                out += _pack_i32(len(aborted))
                for producer_id, first_offset in aborted:
                    out += _aborted(producer_id, first_offset)
            if version >= 11:
                out += _pack_i32(preferred)
            out += _pack_i32(size)
            if size:
                total += len(out) + size
                items += (bytes(out), records)
                out.clear()
    return _framed(items, out, total)


def _pack_compact(
    version: int,
    out: bytearray,
    topics: Sequence[FetchedTopic],
    node_endpoints: Sequence[NodeEndpoint],
) -> list[object]:
    items: list[object] = []
    total = 0
    out += VARINTS[len(topics) + 1] if len(topics) < _TABLED else varint(len(topics) + 1)
    for topic, topic_id, partitions in topics:
        if version >= _TOPIC_IDS:
            out += uuid_bytes(topic_id)
        else:
            name = (topic or "").encode()
            out += VARINTS[len(name) + 1] if len(name) < _TABLED else varint(len(name) + 1)
            out += name
        count = len(partitions)
        out += VARINTS[count + 1] if count < _TABLED else varint(count + 1)
        for each in partitions:
            (
                index,
                error,
                high,
                stable,
                start,
                aborted,
                preferred,
                diverging,
                leader,
                size,
                records,
            ) = each
            out += _partition_head(index, error, high, stable, start)
            if aborted is None:
                out += b"\0"
            else:
                out += varint(len(aborted) + 1)
                for producer_id, first_offset in aborted:
                    out += _tagged_aborted(producer_id, first_offset)
            out += _pack_i32(preferred)
            out += VARINTS[size + 1] if size < _TABLED else varint(size + 1)
            if size:
                total += len(out) + size
                items += (bytes(out), records)
                out.clear()
            if diverging is None and leader is None:
                out += b"\0"
            else:
                out += _hint_tags(diverging, leader)
        out += b"\0"
    if node_endpoints and version >= _ENDPOINTS:
        out += b"\1"
        out += pack_endpoints_tag(node_endpoints)
    else:
        out += b"\0"
    return _framed(items, out, total)


def _hint_tags(diverging: tuple[int, int] | None, leader: tuple[int, int] | None) -> bytes:
    """The tag section of one partition."""
    tags = []
    if diverging is not None and diverging != _UNKNOWN:
        tags.append(_diverging_tag(0, 13, *diverging))
    if leader is not None and leader != _UNKNOWN:
        tags.append(_leader_tag(1, 9, *leader))
    return varint(len(tags)) + b"".join(tags)


def _framed(items: list[object], rest: bytearray, total: int) -> list[object]:
    """The items with the bytes after the last records, and the frame's size in front."""
    total += len(rest)
    if not items:
        return [_size(total) + rest]
    if rest:
        items.append(bytes(rest))
    items[0] = _size(total) + items[0]  # type: ignore[operator]  # every even item is bytes
    return items
