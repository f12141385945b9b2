"""AddPartitionsToTxn messages, versions 0 to 5.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_qh = Struct(">qh").pack
_pack_qho = Struct(">qh?").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_qh = Struct(">qh").unpack_from
_unpack_qho = Struct(">qh?").unpack_from


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Part of AddPartitionsToTxn."""

    name: str
    partitions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTransaction:
    """Part of AddPartitionsToTxn."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...]


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """AddPartitionsToTxn request, versions 0-5."""

    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()
    transactions: tuple[AddPartitionsToTxnTransaction, ...]


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    """Part of AddPartitionsToTxn."""

    partition_index: int
    partition_error_code: ErrorCode


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    """Part of AddPartitionsToTxn."""

    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResult:
    """Part of AddPartitionsToTxn."""

    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """AddPartitionsToTxn response, versions 0-5."""

    throttle_time: timedelta
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()
    error_code: ErrorCode
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...]


def _read_add_partitions_to_txn_topic(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnTopic, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("partitions is null or has a negative length")
    if 4 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    partitions = unpack_from(f">{size}i", buffer, position)
    position += 4 * size
    return AddPartitionsToTxnTopic(name=name, partitions=partitions), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AddPartitionsToTxnRequest, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("v3_and_below_transactional_id is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    v3_and_below_transactional_id = buffer[start:position].decode()
    v3_and_below_producer_id, v3_and_below_producer_epoch = _unpack_qh(buffer, position)
    position += 10
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("v3_and_below_topics is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    v3_and_below_topics_list: list[AddPartitionsToTxnTopic] = []
    for _ in range(size):
        v3_and_below_topics_item, position = _read_add_partitions_to_txn_topic(
            buffer, position, end
        )
        v3_and_below_topics_list.append(v3_and_below_topics_item)
    v3_and_below_topics = tuple(v3_and_below_topics_list)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=v3_and_below_transactional_id,
        v3_and_below_producer_id=v3_and_below_producer_id,
        v3_and_below_producer_epoch=v3_and_below_producer_epoch,
        v3_and_below_topics=v3_and_below_topics,
        transactions=(),
    ), position


def _read_add_partitions_to_txn_topic_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnTopic, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
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
    return AddPartitionsToTxnTopic(name=name, partitions=partitions), position


def _read_add_partitions_to_txn_transaction_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnTransaction, int]:
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
    producer_id, producer_epoch, verify_only = _unpack_qho(buffer, position)
    position += 11
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
    topics_list: list[AddPartitionsToTxnTopic] = []
    for _ in range(size):
        topics_item, position = _read_add_partitions_to_txn_topic_flexible(buffer, position, end)
        topics_list.append(topics_item)
    topics = tuple(topics_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=verify_only,
        topics=topics,
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AddPartitionsToTxnRequest, int]:
    v3_and_below_transactional_id: str = ""
    if version <= 3:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("v3_and_below_transactional_id is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        v3_and_below_transactional_id = buffer[start:position].decode()
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    if version <= 3:
        v3_and_below_producer_id, v3_and_below_producer_epoch = _unpack_qh(buffer, position)
        position += 10
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()
    if version <= 3:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("v3_and_below_topics is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        v3_and_below_topics_list: list[AddPartitionsToTxnTopic] = []
        for _ in range(size):
            v3_and_below_topics_item, position = _read_add_partitions_to_txn_topic_flexible(
                buffer, position, end
            )
            v3_and_below_topics_list.append(v3_and_below_topics_item)
        v3_and_below_topics = tuple(v3_and_below_topics_list)
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()
    if version >= 4:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("transactions is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        transactions_list: list[AddPartitionsToTxnTransaction] = []
        for _ in range(size):
            transactions_item, position = _read_add_partitions_to_txn_transaction_flexible(
                buffer, position, end
            )
            transactions_list.append(transactions_item)
        transactions = tuple(transactions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=v3_and_below_transactional_id,
        v3_and_below_producer_id=v3_and_below_producer_id,
        v3_and_below_producer_epoch=v3_and_below_producer_epoch,
        v3_and_below_topics=v3_and_below_topics,
        transactions=transactions,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AddPartitionsToTxnRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_add_partitions_to_txn_partition_result(
    out: bytearray, message: AddPartitionsToTxnPartitionResult
) -> None:
    out += _pack_ih(message.partition_index, message.partition_error_code)


def _write_add_partitions_to_txn_topic_result(
    out: bytearray, message: AddPartitionsToTxnTopicResult
) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.results_by_partition))
    for results_by_partition_item in message.results_by_partition:
        _write_add_partitions_to_txn_partition_result(out, results_by_partition_item)


def _write_response_legacy(
    out: bytearray, message: AddPartitionsToTxnResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += _pack_i(len(message.results_by_topic_v3_and_below))
    for results_by_topic_v3_and_below_item in message.results_by_topic_v3_and_below:
        _write_add_partitions_to_txn_topic_result(out, results_by_topic_v3_and_below_item)


def _write_add_partitions_to_txn_partition_result_flexible(
    out: bytearray, message: AddPartitionsToTxnPartitionResult
) -> None:
    out += _pack_ih(message.partition_index, message.partition_error_code)
    out += NO_TAGS


def _write_add_partitions_to_txn_topic_result_flexible(
    out: bytearray, message: AddPartitionsToTxnTopicResult
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.results_by_partition) + 1)
    for results_by_partition_item in message.results_by_partition:
        _write_add_partitions_to_txn_partition_result_flexible(out, results_by_partition_item)
    out += NO_TAGS


def _write_add_partitions_to_txn_result_flexible(
    out: bytearray, message: AddPartitionsToTxnResult
) -> None:
    encoded = message.transactional_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.topic_results) + 1)
    for topic_results_item in message.topic_results:
        _write_add_partitions_to_txn_topic_result_flexible(out, topic_results_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: AddPartitionsToTxnResponse, version: int
) -> None:
    out += _pack_i(message.throttle_time // MILLISECOND)
    if version <= 3:
        out += varint(len(message.results_by_topic_v3_and_below) + 1)
        for results_by_topic_v3_and_below_item in message.results_by_topic_v3_and_below:
            _write_add_partitions_to_txn_topic_result_flexible(
                out, results_by_topic_v3_and_below_item
            )
    if version >= 4:
        out += _pack_h(message.error_code)
    if version >= 4:
        out += varint(len(message.results_by_transaction) + 1)
        for results_by_transaction_item in message.results_by_transaction:
            _write_add_partitions_to_txn_result_flexible(out, results_by_transaction_item)
    out += NO_TAGS


def write_response(out: bytearray, message: AddPartitionsToTxnResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)


def _write_add_partitions_to_txn_topic(out: bytearray, message: AddPartitionsToTxnTopic) -> None:
    encoded = message.name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.partitions))
    out += pack(f">{len(message.partitions)}i", *message.partitions)


def _write_request_legacy(out: bytearray, message: AddPartitionsToTxnRequest, version: int) -> None:
    encoded = message.v3_and_below_transactional_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_qh(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    out += _pack_i(len(message.v3_and_below_topics))
    for v3_and_below_topics_item in message.v3_and_below_topics:
        _write_add_partitions_to_txn_topic(out, v3_and_below_topics_item)


def _write_add_partitions_to_txn_topic_flexible(
    out: bytearray, message: AddPartitionsToTxnTopic
) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.partitions) + 1)
    out += pack(f">{len(message.partitions)}i", *message.partitions)
    out += NO_TAGS


def _write_add_partitions_to_txn_transaction_flexible(
    out: bytearray, message: AddPartitionsToTxnTransaction
) -> None:
    encoded = message.transactional_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_qho(message.producer_id, message.producer_epoch, message.verify_only)
    out += varint(len(message.topics) + 1)
    for topics_item in message.topics:
        _write_add_partitions_to_txn_topic_flexible(out, topics_item)
    out += NO_TAGS


def _write_request_flexible(
    out: bytearray, message: AddPartitionsToTxnRequest, version: int
) -> None:
    if version <= 3:
        encoded = message.v3_and_below_transactional_id.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version <= 3:
        out += _pack_qh(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    if version <= 3:
        out += varint(len(message.v3_and_below_topics) + 1)
        for v3_and_below_topics_item in message.v3_and_below_topics:
            _write_add_partitions_to_txn_topic_flexible(out, v3_and_below_topics_item)
    if version >= 4:
        out += varint(len(message.transactions) + 1)
        for transactions_item in message.transactions:
            _write_add_partitions_to_txn_transaction_flexible(out, transactions_item)
    out += NO_TAGS


def write_request(out: bytearray, message: AddPartitionsToTxnRequest, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 3:
        _write_request_flexible(out, message, version)
    else:
        _write_request_legacy(out, message, version)


def _read_add_partitions_to_txn_partition_result(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnPartitionResult, int]:
    partition_index, partition_error_code = _unpack_ih(buffer, position)
    position += 6
    return AddPartitionsToTxnPartitionResult(
        partition_index=partition_index, partition_error_code=ErrorCode(partition_error_code)
    ), position


def _read_add_partitions_to_txn_topic_result(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnTopicResult, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("results_by_partition is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_by_partition_list: list[AddPartitionsToTxnPartitionResult] = []
    for _ in range(size):
        results_by_partition_item, position = _read_add_partitions_to_txn_partition_result(
            buffer, position, end
        )
        results_by_partition_list.append(results_by_partition_item)
    results_by_partition = tuple(results_by_partition_list)
    return AddPartitionsToTxnTopicResult(
        name=name, results_by_partition=results_by_partition
    ), position


def _read_response_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AddPartitionsToTxnResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size < 0:
        raise PeerError("results_by_topic_v3_and_below is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_by_topic_v3_and_below_list: list[AddPartitionsToTxnTopicResult] = []
    for _ in range(size):
        results_by_topic_v3_and_below_item, position = _read_add_partitions_to_txn_topic_result(
            buffer, position, end
        )
        results_by_topic_v3_and_below_list.append(results_by_topic_v3_and_below_item)
    results_by_topic_v3_and_below = tuple(results_by_topic_v3_and_below_list)
    return AddPartitionsToTxnResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        results_by_topic_v3_and_below=results_by_topic_v3_and_below,
        error_code=ErrorCode.none,
        results_by_transaction=(),
    ), position


def _read_add_partitions_to_txn_partition_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnPartitionResult, int]:
    partition_index, partition_error_code = _unpack_ih(buffer, position)
    position += 6
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AddPartitionsToTxnPartitionResult(
        partition_index=partition_index, partition_error_code=ErrorCode(partition_error_code)
    ), position


def _read_add_partitions_to_txn_topic_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnTopicResult, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    name = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("results_by_partition is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_by_partition_list: list[AddPartitionsToTxnPartitionResult] = []
    for _ in range(size):
        results_by_partition_item, position = _read_add_partitions_to_txn_partition_result_flexible(
            buffer, position, end
        )
        results_by_partition_list.append(results_by_partition_item)
    results_by_partition = tuple(results_by_partition_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AddPartitionsToTxnTopicResult(
        name=name, results_by_partition=results_by_partition
    ), position


def _read_add_partitions_to_txn_result_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnResult, int]:
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
        raise PeerError("topic_results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    topic_results_list: list[AddPartitionsToTxnTopicResult] = []
    for _ in range(size):
        topic_results_item, position = _read_add_partitions_to_txn_topic_result_flexible(
            buffer, position, end
        )
        topic_results_list.append(topic_results_item)
    topic_results = tuple(topic_results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AddPartitionsToTxnResult(
        transactional_id=transactional_id, topic_results=topic_results
    ), position


def _read_response_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AddPartitionsToTxnResponse, int]:
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()
    if version <= 3:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("results_by_topic_v3_and_below is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        results_by_topic_v3_and_below_list: list[AddPartitionsToTxnTopicResult] = []
        for _ in range(size):
            results_by_topic_v3_and_below_item, position = (
                _read_add_partitions_to_txn_topic_result_flexible(buffer, position, end)
            )
            results_by_topic_v3_and_below_list.append(results_by_topic_v3_and_below_item)
        results_by_topic_v3_and_below = tuple(results_by_topic_v3_and_below_list)
    error_code: ErrorCode = ErrorCode.none
    if version >= 4:
        (error_code_raw,) = _unpack_h(buffer, position)
        position += 2
        error_code = ErrorCode(error_code_raw)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()
    if version >= 4:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("results_by_transaction is null or has a negative length")
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        results_by_transaction_list: list[AddPartitionsToTxnResult] = []
        for _ in range(size):
            results_by_transaction_item, position = _read_add_partitions_to_txn_result_flexible(
                buffer, position, end
            )
            results_by_transaction_list.append(results_by_transaction_item)
        results_by_transaction = tuple(results_by_transaction_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AddPartitionsToTxnResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        results_by_topic_v3_and_below=results_by_topic_v3_and_below,
        error_code=error_code,
        results_by_transaction=results_by_transaction,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AddPartitionsToTxnResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 3:
        return _read_response_flexible(buffer, position, end, version)
    return _read_response_legacy(buffer, position, end, version)
