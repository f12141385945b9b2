"""ConsumerGroupDescribe messages, versions 0 to 1.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack
from uuid import UUID

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, uuid_bytes, varint

_pack_b = Struct(">b").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ii = Struct(">ii").pack
_pack_s = Struct(">16s").pack
_unpack_o = Struct(">?").unpack_from


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """ConsumerGroupDescribe request, versions 0-1."""

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeTopic:
    """Part of ConsumerGroupDescribe."""

    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeAssignment:
    """Part of ConsumerGroupDescribe."""

    topic_partitions: tuple[ConsumerGroupDescribeTopic, ...]


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeMember:
    """Part of ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: ConsumerGroupDescribeAssignment
    target_assignment: ConsumerGroupDescribeAssignment
    member_type: int = -1


@dataclass(slots=True, kw_only=True)
class DescribedConsumerGroup:
    """Part of ConsumerGroupDescribe."""

    error_code: ErrorCode
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[ConsumerGroupDescribeMember, ...]
    authorized_operations: int = -2147483648


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """ConsumerGroupDescribe response, versions 0-1."""

    throttle_time: timedelta
    groups: tuple[DescribedConsumerGroup, ...]


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ConsumerGroupDescribeRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("group_ids is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    group_ids_list: list[str] = []
    for _ in range(size):
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("group_ids_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        group_ids_item = buffer[start:position].decode()
        group_ids_list.append(group_ids_item)
    group_ids = tuple(group_ids_list)
    (include_authorized_operations,) = _unpack_o(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ConsumerGroupDescribeRequest(
        group_ids=group_ids, include_authorized_operations=include_authorized_operations
    ), position


def _write_consumer_group_describe_topic(
    out: bytearray, message: ConsumerGroupDescribeTopic
) -> None:
    out += _pack_s(uuid_bytes(message.topic_id))
    encoded = message.topic_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    out += pack(f">{len(message.partitions)}i", *message.partitions)
    out += NO_TAGS


def _write_consumer_group_describe_assignment(
    out: bytearray, message: ConsumerGroupDescribeAssignment
) -> None:
    out += varint(len(message.topic_partitions) + 1)
    for topic_partitions_item in message.topic_partitions:
        _write_consumer_group_describe_topic(out, topic_partitions_item)
    out += NO_TAGS


def _write_consumer_group_describe_member(
    out: bytearray, message: ConsumerGroupDescribeMember, version: int
) -> None:
    encoded = message.member_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if message.instance_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.instance_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if message.rack_id is None:
        out += NULL_COMPACT
    else:
        encoded = message.rack_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_i(message.member_epoch)
    encoded = message.client_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.client_host.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.subscribed_topic_names) + 1)
    for subscribed_topic_names_item in message.subscribed_topic_names:
        encoded = subscribed_topic_names_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if message.subscribed_topic_regex is None:
        out += NULL_COMPACT
    else:
        encoded = message.subscribed_topic_regex.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    _write_consumer_group_describe_assignment(out, message.assignment)
    _write_consumer_group_describe_assignment(out, message.target_assignment)
    if version >= 1:
        out += _pack_b(message.member_type)
    out += NO_TAGS


def _write_described_consumer_group(
    out: bytearray, message: DescribedConsumerGroup, version: int
) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    encoded = message.group_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.group_state.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_ii(message.group_epoch, message.assignment_epoch)
    encoded = message.assignor_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.members) + 1)
    for members_item in message.members:
        _write_consumer_group_describe_member(out, members_item, version)
    out += _pack_i(message.authorized_operations)
    out += NO_TAGS


def write_response(out: bytearray, message: ConsumerGroupDescribeResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.groups) + 1)
    for groups_item in message.groups:
        _write_described_consumer_group(out, groups_item, version)
    out += NO_TAGS
