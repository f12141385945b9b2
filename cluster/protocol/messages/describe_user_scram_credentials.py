"""DescribeUserScramCredentials messages, versions 0 to 0.

Written by `python -m cluster.protocol.codegen`.
"""

from dataclasses import dataclass
from datetime import timedelta
from struct import Struct

from cluster.model.error_codes import ErrorCode
from cluster.model.errors import PeerError
from cluster.protocol.reader import ELEMENTS_MAX, read_length, skip_tags, too_many, truncated
from cluster.protocol.writer import MILLISECOND, NO_TAGS, NULL_COMPACT, varint

_pack_bi = Struct(">bi").pack
_pack_h = Struct(">h").pack
_pack_ih = Struct(">ih").pack
_unpack_bi = Struct(">bi").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_ih = Struct(">ih").unpack_from


@dataclass(slots=True, kw_only=True)
class UserName:
    """Part of DescribeUserScramCredentials."""

    name: str


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    """DescribeUserScramCredentials request, versions 0-0."""

    users: tuple[UserName, ...] | None


@dataclass(slots=True, kw_only=True)
class ScramCredential:
    """Part of DescribeUserScramCredentials."""

    mechanism: int
    iterations: int


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    """Part of DescribeUserScramCredentials."""

    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: tuple[ScramCredential, ...]


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials response, versions 0-0."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]


def _read_user_name(buffer: bytes, position: int, end: int) -> tuple[UserName, int]:
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return UserName(name=name), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeUserScramCredentialsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    users: tuple[UserName, ...] | None
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size >= 0:
        if size > end - position:
            raise truncated()
        if size > ELEMENTS_MAX:
            raise too_many(size)
        users_list: list[UserName] = []
        for _ in range(size):
            users_item, position = _read_user_name(buffer, position, end)
            users_list.append(users_item)
        users = tuple(users_list)
    else:
        users = None
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeUserScramCredentialsRequest(users=users), position


def _write_scram_credential(out: bytearray, message: ScramCredential) -> None:
    out += _pack_bi(message.mechanism, message.iterations)
    out += NO_TAGS


def _write_describe_user_scram_credentials_result(
    out: bytearray, message: DescribeUserScramCredentialsResult
) -> None:
    encoded = message.user.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.credential_infos) + 1)
    for credential_infos_item in message.credential_infos:
        _write_scram_credential(out, credential_infos_item)
    out += NO_TAGS


def write_response(
    out: bytearray, message: DescribeUserScramCredentialsResponse, version: int
) -> None:
    """Append the message as this version has it."""
    out += _pack_ih(message.throttle_time // MILLISECOND, message.error_code)
    if message.error_message is None:
        out += NULL_COMPACT
    else:
        encoded = message.error_message.encode()
        out += varint(len(encoded) + 1)
        out += encoded
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_describe_user_scram_credentials_result(out, results_item)
    out += NO_TAGS


def _write_user_name(out: bytearray, message: UserName) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += NO_TAGS


def write_request(
    out: bytearray, message: DescribeUserScramCredentialsRequest, version: int
) -> None:
    """Append the message as this version has it."""
    if message.users is None:
        out += NULL_COMPACT
    else:
        out += varint(len(message.users) + 1)
        for users_item in message.users:
            _write_user_name(out, users_item)
    out += NO_TAGS


def _read_scram_credential(buffer: bytes, position: int, end: int) -> tuple[ScramCredential, int]:
    mechanism, iterations = _unpack_bi(buffer, position)
    position += 5
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ScramCredential(mechanism=mechanism, iterations=iterations), position


def _read_describe_user_scram_credentials_result(
    buffer: bytes, position: int, end: int
) -> tuple[DescribeUserScramCredentialsResult, int]:
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("user is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    user = buffer[start:position].decode()
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
        raise PeerError("credential_infos is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    credential_infos_list: list[ScramCredential] = []
    for _ in range(size):
        credential_infos_item, position = _read_scram_credential(buffer, position, end)
        credential_infos_list.append(credential_infos_item)
    credential_infos = tuple(credential_infos_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode(error_code),
        error_message=error_message,
        credential_infos=credential_infos,
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[DescribeUserScramCredentialsResponse, int]:
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
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("results is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    results_list: list[DescribeUserScramCredentialsResult] = []
    for _ in range(size):
        results_item, position = _read_describe_user_scram_credentials_result(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return DescribeUserScramCredentialsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time),
        error_code=ErrorCode(error_code),
        error_message=error_message,
        results=results,
    ), position
