"""AlterUserScramCredentials messages, versions 0 to 0.

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
_pack_bi = Struct(">bi").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_unpack_b = Struct(">b").unpack_from
_unpack_bi = Struct(">bi").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from


@dataclass(slots=True, kw_only=True)
class ScramCredentialDeletion:
    """Part of AlterUserScramCredentials."""

    name: str
    mechanism: int


@dataclass(slots=True, kw_only=True)
class ScramCredentialUpsertion:
    """Part of AlterUserScramCredentials."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsRequest:
    """AlterUserScramCredentials request, versions 0-0."""

    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResult:
    """Part of AlterUserScramCredentials."""

    user: str
    error_code: ErrorCode
    error_message: str | None


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    """AlterUserScramCredentials response, versions 0-0."""

    throttle_time: timedelta
    results: tuple[AlterUserScramCredentialsResult, ...]


def _read_scram_credential_deletion(
    buffer: bytes, position: int, end: int
) -> tuple[ScramCredentialDeletion, int]:
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
    (mechanism,) = _unpack_b(buffer, position)
    position += 1
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ScramCredentialDeletion(name=name, mechanism=mechanism), position


def _read_scram_credential_upsertion(
    buffer: bytes, position: int, end: int
) -> tuple[ScramCredentialUpsertion, int]:
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
    mechanism, iterations = _unpack_bi(buffer, position)
    position += 5
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("salt is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    salt = buffer[start:position]
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("salted_password is null or has a negative length")
    start = position
    position += size
    if position > end:
        raise truncated()
    salted_password = buffer[start:position]
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password,
    ), position


def read_request(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterUserScramCredentialsRequest, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("deletions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    deletions_list: list[ScramCredentialDeletion] = []
    for _ in range(size):
        deletions_item, position = _read_scram_credential_deletion(buffer, position, end)
        deletions_list.append(deletions_item)
    deletions = tuple(deletions_list)
    size = buffer[position] - 1
    position += 1
    if size > 126:
        size, position = read_length(buffer, position - 1)
    if size < 0:
        raise PeerError("upsertions is null or has a negative length")
    if size > end - position:
        raise truncated()
    if size > ELEMENTS_MAX:
        raise too_many(size)
    upsertions_list: list[ScramCredentialUpsertion] = []
    for _ in range(size):
        upsertions_item, position = _read_scram_credential_upsertion(buffer, position, end)
        upsertions_list.append(upsertions_item)
    upsertions = tuple(upsertions_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions), position


def _write_alter_user_scram_credentials_result(
    out: bytearray, message: AlterUserScramCredentialsResult
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
    out += NO_TAGS


def write_response(
    out: bytearray, message: AlterUserScramCredentialsResponse, version: int
) -> None:
    """Append the message as this version has it."""
    out += _pack_i(message.throttle_time // MILLISECOND)
    out += varint(len(message.results) + 1)
    for results_item in message.results:
        _write_alter_user_scram_credentials_result(out, results_item)
    out += NO_TAGS


def _write_scram_credential_deletion(out: bytearray, message: ScramCredentialDeletion) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_b(message.mechanism)
    out += NO_TAGS


def _write_scram_credential_upsertion(out: bytearray, message: ScramCredentialUpsertion) -> None:
    encoded = message.name.encode()
    out += varint(len(encoded) + 1)
    out += encoded
    out += _pack_bi(message.mechanism, message.iterations)
    out += varint(len(message.salt) + 1)
    out += message.salt
    out += varint(len(message.salted_password) + 1)
    out += message.salted_password
    out += NO_TAGS


def write_request(out: bytearray, message: AlterUserScramCredentialsRequest, version: int) -> None:
    """Append the message as this version has it."""
    out += varint(len(message.deletions) + 1)
    for deletions_item in message.deletions:
        _write_scram_credential_deletion(out, deletions_item)
    out += varint(len(message.upsertions) + 1)
    for upsertions_item in message.upsertions:
        _write_scram_credential_upsertion(out, upsertions_item)
    out += NO_TAGS


def _read_alter_user_scram_credentials_result(
    buffer: bytes, position: int, end: int
) -> tuple[AlterUserScramCredentialsResult, int]:
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
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterUserScramCredentialsResult(
        user=user, error_code=ErrorCode(error_code), error_message=error_message
    ), position


def read_response(
    buffer: bytes, position: int, end: int, version: int
) -> tuple[AlterUserScramCredentialsResponse, int]:
    """The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""
    (throttle_time,) = _unpack_i(buffer, position)
    position += 4
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
    results_list: list[AlterUserScramCredentialsResult] = []
    for _ in range(size):
        results_item, position = _read_alter_user_scram_credentials_result(buffer, position, end)
        results_list.append(results_item)
    results = tuple(results_list)
    if not buffer[position]:
        position += 1
    else:
        position = skip_tags(buffer, position, end)
    return AlterUserScramCredentialsResponse(
        throttle_time=timedelta(0, 0, 0, throttle_time), results=results
    ), position
