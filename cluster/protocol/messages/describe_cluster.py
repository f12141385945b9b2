"""DescribeCluster messages, versions 0 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.protocol.reader import skip_tags
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, varint

_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_o = Struct(">?").pack
_unpack_o = Struct(">?").unpack_from
_unpack_ob = Struct(">?b").unpack_from
_unpack_obo = Struct(">?b?").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeClusterRequest:
    """DescribeCluster request, versions 0-2."""

    include_cluster_authorized_operations: bool
    endpoint_type: int = 1
    include_fenced_brokers: bool


@dataclass(slots=True, kw_only=True)
class DescribeClusterBroker:
    """Part of DescribeCluster."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool


@dataclass(slots=True, kw_only=True)
class DescribeClusterResponse:
    """DescribeCluster response, versions 0-2."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int = -2147483648


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClusterRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    endpoint_type: int = 1
    include_fenced_brokers: bool = False
    if version >= 2:
        include_cluster_authorized_operations, endpoint_type, include_fenced_brokers = _unpack_obo(
            buffer, position
        )
        position += 3
    elif version >= 1:
        include_cluster_authorized_operations, endpoint_type = _unpack_ob(buffer, position)
        position += 2
    else:
        (include_cluster_authorized_operations,) = _unpack_o(buffer, position)
        position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeClusterRequest(
        include_cluster_authorized_operations=include_cluster_authorized_operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=include_fenced_brokers,
    ), position


def _write_describe_cluster_broker(
    out: bytearray, message: DescribeClusterBroker, version: int
) -> None:
    out += _pack_i(message.broker_id)
    encoded = message.host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_i(message.port)
    if message.rack is None:
        out += NULL_COMPACT
    else:
        encoded = message.rack.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 2:
        out += _pack_o(message.is_fenced)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeClusterResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 1:
        out += _pack_b(message.endpoint_type)
    encoded = message.cluster_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_i(message.controller_id)
    out += varint(len(message.brokers) + 1)
    for brokers_item in message.brokers:
        _write_describe_cluster_broker(out, brokers_item, version)
    out += _pack_i(message.cluster_authorized_operations)
    out += NO_TAGS
