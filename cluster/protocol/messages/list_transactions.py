"""ListTransactions messages, versions 0 to 2.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct, pack, unpack_from

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, EncodedItems, varint

_pack_ih = Struct(">ih").pack
_pack_q = Struct(">q").pack
_unpack_ih = Struct(">ih").unpack_from
_unpack_q = Struct(">q").unpack_from


@dataclass(slots=True, kw_only=True)
class ListTransactionsRequest:
    """ListTransactions request, versions 0-2."""

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


@dataclass(slots=True, kw_only=True)
class ListedTransaction:
    """Part of ListTransactions."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@dataclass(slots=True, kw_only=True)
class ListTransactionsResponse:
    """ListTransactions response, versions 0-2."""

    throttle_time: timedelta
    error_code: ErrorCode
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] | EncodedItems


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListTransactionsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("state_filters is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    state_filters_list: list[str] = []
    for _ in range(size):
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("state_filters_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        state_filters_item = buffer[start:position].decode()
        state_filters_list.append(state_filters_item)
    state_filters = tuple(state_filters_list)
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("producer_id_filters is null or has a negative length")
    if 8 * size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    producer_id_filters = unpack_from(f">{size}q", buffer, position)
    position += 8 * size
    duration_filter: int = -1
    if version >= 1:
        (duration_filter,) = _unpack_q(buffer, position)
        position += 8
    transactional_id_pattern: str | None = None
    if version >= 2:
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size >= 0:
            start = position
            position += size
            if position > end:
                raise truncated()
            transactional_id_pattern = buffer[start:position].decode()
        else:
            transactional_id_pattern = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListTransactionsRequest(
        state_filters=state_filters,
        producer_id_filters=producer_id_filters,
        duration_filter=duration_filter,
        transactional_id_pattern=transactional_id_pattern,
    ), position


def _write_listed_transaction(out: bytearray, message: ListedTransaction) -> None:
    encoded = message.transactional_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_q(message.producer_id)
    encoded = message.transaction_state.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += NO_TAGS


def write_response(out: bytearray, message: ListTransactionsResponse, version: int) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    out += varint(len(message.unknown_state_filters) + 1)
    for unknown_state_filters_item in message.unknown_state_filters:
        encoded = unknown_state_filters_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.transaction_states) + 1)
    if isinstance(message.transaction_states, EncodedItems):
        out += message.transaction_states.content
    else:
        for transaction_states_item in message.transaction_states:
            _write_listed_transaction(out, transaction_states_item)
    out += NO_TAGS


def write_request(out: bytearray, message: ListTransactionsRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += varint(len(message.state_filters) + 1)
    for state_filters_item in message.state_filters:
        encoded = state_filters_item.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.producer_id_filters) + 1)
    out += pack(f">{len(message.producer_id_filters)}q", *message.producer_id_filters)
    if version >= 1:
        out += _pack_q(message.duration_filter)
    if version >= 2:
        if message.transactional_id_pattern is None:
            out += NULL_COMPACT
        else:
            encoded = message.transactional_id_pattern.encode()
            out += varint(len(encoded) + 1)
            out += encoded
    out += NO_TAGS


def _read_listed_transaction(
    buffer: bytes, position: int, end: int
) -> tuple[ListedTransaction, int]:
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
    (producer_id,) = _unpack_q(buffer, position)
    position += 8
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListedTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        transaction_state=transaction_state,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[ListTransactionsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    throttle_time, error_code = _unpack_ih(buffer, position)
    position += 6
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("unknown_state_filters is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    unknown_state_filters_list: list[str] = []
    for _ in range(size):
        size = buffer[position] - 1
        position += 1
        if size > 126:
            size, position = read_length(buffer, position - 1)
        if size < 0:
            raise PeerError("unknown_state_filters_item is null or has a negative length")
        start = position
        position += size
        if position > end:
            raise truncated()
        unknown_state_filters_item = buffer[start:position].decode()
        unknown_state_filters_list.append(unknown_state_filters_item)
    unknown_state_filters = tuple(unknown_state_filters_list)
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
    transaction_states_list: list[ListedTransaction] = []
    for _ in range(size):
        transaction_states_item, position = _read_listed_transaction(buffer, position, end)
        transaction_states_list.append(transaction_states_item)
    transaction_states = tuple(transaction_states_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ListTransactionsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        unknown_state_filters=unknown_state_filters,
        transaction_states=transaction_states,
    ), position


def write_listed_transaction(out: bytearray, message: ListedTransaction, version: int) -> None:
    """Append one item of `EncodedItems` as this version has it."""
    _write_listed_transaction(out, message)
