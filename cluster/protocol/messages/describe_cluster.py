"""DescribeCluster messages, versions 0 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, varint

_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_o = Struct(">?").pack
_pack_ob = Struct(">?b").pack
_pack_obo = Struct(">?b?").pack
_unpack_b = Struct(">b").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
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


def write_request(out: bytearray, message: DescribeClusterRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        out += _pack_obo(
            message.include_cluster_authorized_operations,
            message.endpoint_type,
            message.include_fenced_brokers,
        )
    elif version >= 1:
        out += _pack_ob(message.include_cluster_authorized_operations, message.endpoint_type)
    else:
        out += _pack_o(message.include_cluster_authorized_operations)
    out += NO_TAGS


def _read_describe_cluster_broker(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClusterBroker, int]:
    (broker_id,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    host = buffer[start:position].decode()
    (port,) = _unpack_i(buffer, position)
    position += 4
    rack: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        rack = buffer[start:position].decode()
    else:
        rack = None
    is_fenced: bool = False
    if version >= 2:
        (is_fenced,) = _unpack_o(buffer, position)
        position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeClusterBroker(
        broker_id=broker_id, host=host, port=port, rack=rack, is_fenced=is_fenced
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeClusterResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    error_message: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        error_message = buffer[start:position].decode()
    else:
        error_message = None
    endpoint_type: int = 1
    if version >= 1:
        (endpoint_type,) = _unpack_b(buffer, position)
        position += 1
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("cluster_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    cluster_id = buffer[start:position].decode()
    (controller_id,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("brokers is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    brokers_list: list[DescribeClusterBroker] = []
    for _ in range(size):
        brokers_item, position = _read_describe_cluster_broker(buffer, position, end, version)
        brokers_list.append(brokers_item)
    brokers = tuple(brokers_list)
    (cluster_authorized_operations,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeClusterResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
        endpoint_type=endpoint_type,
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers=brokers,
        cluster_authorized_operations=cluster_authorized_operations,
    ), position
