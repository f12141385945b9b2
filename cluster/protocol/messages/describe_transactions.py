"""DescribeTransactions messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import (
    ELEMENTS_MAX,
    datetime_of,
    read_length,
    skip_tags,
    too_many,
    truncated,
)
from cluster.protocol.writer import MILLISECOND, NO_TAGS, timestamp_of, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iqqh = Struct(">iqqh").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iqqh = Struct(">iqqh").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """DescribeTransactions request, versions 0-0."""

    transactional_ids: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class DescribedTransactionTopic:
    """Part of DescribeTransactions."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class DescribedTransaction:
    """Part of DescribeTransactions."""

    error_code: ErrorCode
    transactional_id: str
    transaction_state: str
    transaction_timeout: timedelta
    transaction_start_time: datetime | None
    producer_id: int
    producer_epoch: int
    topics: tuple[DescribedTransactionTopic, ...]


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """DescribeTransactions response, versions 0-0."""

    throttle_time: timedelta
    transaction_states: tuple[DescribedTransaction, ...]


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeTransactionsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("transactional_ids is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    transactional_ids_list: list[str] = []
    for _ in range(size):
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("transactional_ids_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        transactional_ids_item = buffer[start:position].decode()
        transactional_ids_list.append(transactional_ids_item)
    transactional_ids = tuple(transactional_ids_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeTransactionsRequest(transactional_ids=transactional_ids), position


def _write_described_transaction_topic(out: bytearray, message: DescribedTransactionTopic) -> None:
    encoded = message.topic.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    out += pack(f">{len(message.partitions)}i", *message.partitions)
    out += NO_TAGS


def _write_described_transaction(out: bytearray, message: DescribedTransaction) -> None:
    out += _pack_h(message.error_code)
    encoded = message.transactional_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.transaction_state.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_iqqh(
        message.transaction_timeout // MILLISECOND,
        timestamp_of(message.transaction_start_time),
        message.producer_id,
        message.producer_epoch,
    )
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_described_transaction_topic(out, topics_item)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeTransactionsResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.transaction_states) + 1)
    for transaction_states_item in message.transaction_states:
        _write_described_transaction(out, transaction_states_item)
    out += NO_TAGS


def write_request(out: bytearray, message: DescribeTransactionsRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += varint(len(message.transactional_ids) + 1)
    for transactional_ids_item in message.transactional_ids:
        encoded = transactional_ids_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += NO_TAGS


def _read_described_transaction_topic(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedTransactionTopic, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topic is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    topic = buffer[start:position].decode()
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
    return DescribedTransactionTopic(topic=topic, partitions=partitions), position


def _read_described_transaction(
    buffer: bytes, position: int, end: int
) -> tuple[DescribedTransaction, int]:
    (error_code,) = _unpack_h(buffer, position)
    position += 2
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("transactional_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    transactional_id = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("transaction_state is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    transaction_state = buffer[start:position].decode()
    transaction_timeout, transaction_start_time, producer_id, producer_epoch = _unpack_iqqh(
        buffer, position
    )
    position += 22
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topics_list: list[DescribedTransactionTopic] = []
    for _ in range(size):
        topics_item, position = _read_described_transaction_topic(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribedTransaction(
        error_code=ErrorCode(error_code),
        transactional_id=transactional_id,
        transaction_state=transaction_state,
        transaction_timeout=timedelta(0, 0, 0, transaction_timeout),
        transaction_start_time=datetime_of(transaction_start_time),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=topics,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeTransactionsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("transaction_states is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    transaction_states_list: list[DescribedTransaction] = []
    for _ in range(size):
        transaction_states_item, position = _read_described_transaction(buffer, position, end)
        transaction_states_list.append(transaction_states_item)
    transaction_states = tuple(transaction_states_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeTransactionsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), transaction_states=transaction_states
    ), position
