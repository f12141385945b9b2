"""DescribeDelegationToken messages, versions 1 to 3.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, varint

_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_qqq = Struct(">qqq").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class DescribeDelegationTokenOwner:
    """Part of DescribeDelegationToken."""

    principal_type: str
    principal_name: str


@dataclass(slots=True, kw_only=True)
class DescribeDelegationTokenRequest:
    """DescribeDelegationToken request, versions 1-3."""

    owners: tuple[DescribeDelegationTokenOwner, ...] | None


@dataclass(slots=True, kw_only=True)
class DescribedDelegationTokenRenewer:
    """Part of DescribeDelegationToken."""

    principal_type: str
    principal_name: str


@dataclass(slots=True, kw_only=True)
class DescribedDelegationToken:
    """Part of DescribeDelegationToken."""

    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: tuple[DescribedDelegationTokenRenewer, ...]


@dataclass(slots=True, kw_only=True)
class DescribeDelegationTokenResponse:
    """DescribeDelegationToken response, versions 1-3."""

    error_code: ErrorCode
    tokens: tuple[DescribedDelegationToken, ...]
    throttle_time: timedelta


def _read_describe_delegation_token_owner(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeDelegationTokenOwner, int]:
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("principal_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_type = buffer[start:position].decode()
    (size,) = _unpack_h(buffer, position)
    position += 2
    if size < 0:
        raise PeerError("principal_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_name = buffer[start:position].decode()
    return DescribeDelegationTokenOwner(
        principal_type=principal_type, principal_name=principal_name
    ), position


def _read_request_legacy(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeDelegationTokenRequest, int]:
    owners: tuple[DescribeDelegationTokenOwner, ...] | None
    (size,) = _unpack_i(buffer, position)
    position += 4
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        owners_list: list[DescribeDelegationTokenOwner] = []
        for _ in range(size):
            owners_item, position = _read_describe_delegation_token_owner(buffer, position, end)
            owners_list.append(owners_item)
        owners = tuple(owners_list)
    elif size == -1:
        owners = None
    else:
        raise PeerError("owners is null or has a negative length")
    return DescribeDelegationTokenRequest(owners=owners), position


def _read_describe_delegation_token_owner_flexible(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeDelegationTokenOwner, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("principal_type is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_type = buffer[start:position].decode()
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("principal_name is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    principal_name = buffer[start:position].decode()
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeDelegationTokenOwner(
        principal_type=principal_type, principal_name=principal_name
    ), position


def _read_request_flexible(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeDelegationTokenRequest, int]:
    owners: tuple[DescribeDelegationTokenOwner, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        owners_list: list[DescribeDelegationTokenOwner] = []
        for _ in range(size):
            owners_item, position = _read_describe_delegation_token_owner_flexible(
                buffer, position, end
            )
            owners_list.append(owners_item)
        owners = tuple(owners_list)
    else:
        owners = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeDelegationTokenRequest(owners=owners), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeDelegationTokenRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    if version >= 2:
        return _read_request_flexible(buffer, position, end, version)
    return _read_request_legacy(buffer, position, end, version)


def _write_described_delegation_token_renewer(
    out: bytearray, message: DescribedDelegationTokenRenewer
) -> None:
    encoded = message.principal_type.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.principal_name.encode()
    out += _pack_h(len(encoded))
    out += encoded


def _write_described_delegation_token(out: bytearray, message: DescribedDelegationToken) -> None:
    encoded = message.principal_type.encode()
    out += _pack_h(len(encoded))
    out += encoded
    encoded = message.principal_name.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_qqq(message.issue_timestamp, message.expiry_timestamp, message.max_timestamp)
    encoded = message.token_id.encode()
    out += _pack_h(len(encoded))
    out += encoded
    out += _pack_i(len(message.hmac))
    out += message.hmac
    out += _pack_i(len(message.renewers))
    for renewers_item in message.renewers:
        _write_described_delegation_token_renewer(out, renewers_item)


def _write_response_legacy(
    out: bytearray, message: DescribeDelegationTokenResponse, version: int
) -> None:
    out += _pack_h(message.error_code)
    out += _pack_i(len(message.tokens))
    for tokens_item in message.tokens:
        _write_described_delegation_token(out, tokens_item)
    out += _pack_i(message.throttle_time // MILLISECOND)


def _write_described_delegation_token_renewer_flexible(
    out: bytearray, message: DescribedDelegationTokenRenewer
) -> None:
    encoded = message.principal_type.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.principal_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += NO_TAGS


def _write_described_delegation_token_flexible(
    out: bytearray, message: DescribedDelegationToken, version: int
) -> None:
    encoded = message.principal_type.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    encoded = message.principal_name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    if version >= 3:
        encoded = message.token_requester_principal_type.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    if version >= 3:
        encoded = message.token_requester_principal_name.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += _pack_qqq(message.issue_timestamp, message.expiry_timestamp, message.max_timestamp)
    encoded = message.token_id.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += varint(len(message.hmac) + 1)
    out += message.hmac
    out += varint(len(message.renewers) + 1)
    for renewers_item in message.renewers:
        _write_described_delegation_token_renewer_flexible(out, renewers_item)
    out += NO_TAGS


def _write_response_flexible(
    out: bytearray, message: DescribeDelegationTokenResponse, version: int
) -> None:
    out += _pack_h(message.error_code)
    out += varint(len(message.tokens) + 1)
    for tokens_item in message.tokens:
        _write_described_delegation_token_flexible(out, tokens_item, version)
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += NO_TAGS


def write_response(out: bytearray, message: DescribeDelegationTokenResponse, version: int) -> None:
    """Append the message as this version has it."""
    if version >= 2:
        _write_response_flexible(out, message, version)
    else:
        _write_response_legacy(out, message, version)
