"""ConsumerGroupDescribe messages, versions 0 to 1.

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
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, uuid_bytes, varint

_pack_b = Struct(">b").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ii = Struct(">ii").pack
_pack_o = Struct(">?").pack
_pack_s = Struct(">16s").pack
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_o = Struct(">?").unpack_from
_unpack_s = Struct(">16s").unpack_from


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


def write_request(out: bytearray, message: ConsumerGroupDescribeRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += varint(len(message.group_ids) + 1)
    for group_ids_item in message.group_ids:
        encoded = group_ids_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_o(message.include_authorized_operations)
    out += NO_TAGS


def _read_consumer_group_describe_topic(
    buffer: bytes, position: int, end: int
) -> tuple[ConsumerGroupDescribeTopic, int]:
    (topic_id,) = _unpack_s(buffer, position)
    position += 16
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topic_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    topic_name = buffer[start:position].decode()
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
    return ConsumerGroupDescribeTopic(
        topic_id=uuid_of(topic_id), topic_name=topic_name, partitions=partitions
    ), position


def _read_consumer_group_describe_assignment(
    buffer: bytes, position: int, end: int
) -> tuple[ConsumerGroupDescribeAssignment, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topic_partitions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topic_partitions_list: list[ConsumerGroupDescribeTopic] = []
    for _ in range(size):
        topic_partitions_item, position = _read_consumer_group_describe_topic(buffer, position, end)
        topic_partitions_list.append(topic_partitions_item)
    topic_partitions = tuple(topic_partitions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ConsumerGroupDescribeAssignment(topic_partitions=topic_partitions), position


def _read_consumer_group_describe_member(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ConsumerGroupDescribeMember, int]:
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
    (member_epoch,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("client_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_id = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("client_host is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    client_host = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("subscribed_topic_names is null or has a negative length")
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
    subscribed_topic_regex: str | None
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
    assignment, position = _read_consumer_group_describe_assignment(buffer, position, end)
    target_assignment, position = _read_consumer_group_describe_assignment(buffer, position, end)
    member_type: int = -1
    if version >= 1:
        (member_type,) = _unpack_b(buffer, position)
        position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ConsumerGroupDescribeMember(
        member_id=member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        member_epoch=member_epoch,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=subscribed_topic_names,
        subscribed_topic_regex=subscribed_topic_regex,
        assignment=assignment,
        target_assignment=target_assignment,
        member_type=member_type,
    ), position


def _read_described_consumer_group(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribedConsumerGroup, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
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
        raise PeerError("group_state is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    group_state = buffer[start:position].decode()
    group_epoch, assignment_epoch = _unpack_ii(buffer, position)
    position += 8
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("assignor_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    assignor_name = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("members is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    members_list: list[ConsumerGroupDescribeMember] = []
    for _ in range(size):
        members_item, position = _read_consumer_group_describe_member(
            buffer, position, end, version
        )
        members_list.append(members_item)
    members = tuple(members_list)
    (authorized_operations,) = _unpack_i(buffer, position)
    position += 4
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedConsumerGroup(
        error_code=ErrorCode(error_code),
        error_message=error_message,
        group_id=group_id,
        group_state=group_state,
        group_epoch=group_epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=assignor_name,
        members=members,
        authorized_operations=authorized_operations,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ConsumerGroupDescribeResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("groups is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    groups_list: list[DescribedConsumerGroup] = []
    for _ in range(size):
        groups_item, position = _read_described_consumer_group(buffer, position, end, version)
        groups_list.append(groups_item)
    groups = tuple(groups_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ConsumerGroupDescribeResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), groups=groups
    ), position
