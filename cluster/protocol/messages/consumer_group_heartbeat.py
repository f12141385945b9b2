"""ConsumerGroupHeartbeat messages, versions 0 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    read_length,
    skip_tags,
    too_many,
    truncated,
    uuid_of,
)
from cluster.protocol.writer import (
    MILLISECOND,
    NO_TAGS,
    NULL_COMPACT,
    NULL_STRUCT,
    STRUCT_FOLLOWS,
    uuid_bytes,
    varint,
)

_pack_ih = Struct(">ih").pack
_pack_ii = Struct(">ii").pack
_pack_s = Struct(">16s").pack
_unpack_i = Struct(">i").unpack_from
_unpack_s = Struct(">16s").unpack_from


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatOwnedTopic:
    """Part of ConsumerGroupHeartbeat."""

    topic_id: UUID | None
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    """ConsumerGroupHeartbeat request, versions 0-1."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: timedelta = timedelta(milliseconds=-1)
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[ConsumerGroupHeartbeatOwnedTopic, ...] | None


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatTopic:
    """Part of ConsumerGroupHeartbeat."""

    topic_id: UUID | None
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatAssignment:
    """Part of ConsumerGroupHeartbeat."""

    topic_partitions: tuple[ConsumerGroupHeartbeatTopic, ...]


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat response, versions 0-1."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int
    heartbeat_interval: timedelta
    assignment: ConsumerGroupHeartbeatAssignment | None = None


def _read_consumer_group_heartbeat_owned_topic(
    buffer: bytes, position: int, end: int
) -> tuple[ConsumerGroupHeartbeatOwnedTopic, int]:
    (topic_id,) = _unpack_s(buffer, position)
    position += 16
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ConsumerGroupHeartbeatOwnedTopic(
        topic_id=uuid_of(topic_id), partitions=partitions
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ConsumerGroupHeartbeatRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("group_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_id = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("member_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    member_id = buffer[start:position].decode()
    (member_epoch,) = _unpack_i(buffer, position)
    position += 4
    instance_id: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        instance_id = buffer[start:position].decode()
    else:
        instance_id = None
    rack_id: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        rack_id = buffer[start:position].decode()
    else:
        rack_id = None
    (rebalance_timeout,) = _unpack_i(buffer, position)
    position += 4
    subscribed_topic_names: tuple[str, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        subscribed_topic_names_list: list[str] = []
        for _ in range(size):
            size = buffer[position] - 1
            position += 1
            if size > 126:
                size, position = read_length(buffer, position - 1)
            if size < 0:
                raise PeerError("subscribed_topic_names_item is null or has a negative length")
            start = position
            position += size
            if position > end:
                raise truncated()
            subscribed_topic_names_item = buffer[start:position].decode()
            subscribed_topic_names_list.append(subscribed_topic_names_item)
        subscribed_topic_names = tuple(subscribed_topic_names_list)
    else:
        subscribed_topic_names = None
    subscribed_topic_regex: str | None = None
    if version >= 1:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            subscribed_topic_regex = buffer[start:position].decode()
        else:
            subscribed_topic_regex = None
    server_assignor: str | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        start = position
        position += size
        if position > end:
            raise truncated()
        server_assignor = buffer[start:position].decode()
    else:
        server_assignor = None
    topic_partitions: tuple[ConsumerGroupHeartbeatOwnedTopic, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        topic_partitions_list: list[ConsumerGroupHeartbeatOwnedTopic] = []
        for _ in range(size):
            topic_partitions_item, position = _read_consumer_group_heartbeat_owned_topic(
                buffer, position, end
            )
            topic_partitions_list.append(topic_partitions_item)
        topic_partitions = tuple(topic_partitions_list)
    else:
        topic_partitions = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout=timedelta(0, 0, 0, rebalance_timeout),
        subscribed_topic_names=subscribed_topic_names,
        subscribed_topic_regex=subscribed_topic_regex,
        server_assignor=server_assignor,
        topic_partitions=topic_partitions,
    ), position


def _write_consumer_group_heartbeat_topic(
    out: bytearray, message: ConsumerGroupHeartbeatTopic
) -> None:
    out += _pack_s(uuid_bytes(message.topic_id))
    out += varint(len(message.partitions) + 1)
    out += pack(f">{len(message.partitions)}i", *message.partitions)
    out += NO_TAGS


def _write_consumer_group_heartbeat_assignment(
    out: bytearray, message: ConsumerGroupHeartbeatAssignment
) -> None:
    out += varint(len(message.topic_partitions) + 1)
    for topic_partitions_item in message.topic_partitions:
        _write_consumer_group_heartbeat_topic(out, topic_partitions_item)
    out += NO_TAGS


def write_response(out: bytearray, message: ConsumerGroupHeartbeatResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if message.member_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.member_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_ii(message.member_epoch, message.heartbeat_interval // MILLISECOND)
    if message.assignment is None:
        out += NULL_STRUCT
    else:
        out += STRUCT_FOLLOWS
        _write_consumer_group_heartbeat_assignment(out, message.assignment)
    out += NO_TAGS
