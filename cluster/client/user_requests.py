"""Asks a cluster for users who log in by SCRAM, and to change them (KIP-554)."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.client.quota_requests import Caller
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.scram import MECHANISM_CODES, SALT_BYTES, salted_password
from cluster.model.security import SaslMechanism
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    AlterUserScramCredentialsRequest,
    DescribeClusterRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

Iterations = dict[SaslMechanism, int]
"""The mechanisms by which a user can log in, each with its number of iterations."""

_MECHANISMS: Final = {code: mechanism for mechanism, code in MECHANISM_CODES.items()}


class NewPassword(NamedTuple):
    """A password for one mechanism."""

    mechanism: SaslMechanism
    password: str
    iterations: int

    def __repr__(self) -> str:
        return f"NewPassword({self.mechanism}, iterations={self.iterations})"


def describe_users(client: Caller, names: Sequence[str] | None = None) -> dict[str, Iterations]:
    """The users of these names that there are, or all; how each can log in. Raises Refused."""
    wanted = None if names is None else tuple(UserName(name=name) for name in names)
    told = client.call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=wanted)
    )
    _check(told.error_code, told.error_message)
    found: dict[str, Iterations] = {}
    for result in told.results:
        if result.error_code is ErrorCode.resource_not_found:
            continue
        _check(result.error_code, result.error_message)
        found[result.user] = {
            _MECHANISMS[each.mechanism]: each.iterations
            for each in result.credential_infos
            if each.mechanism in _MECHANISMS
        }
    return found


def alter_user(
    client: SocketClient,
    name: str,
    passwords: Iterable[NewPassword] = (),
    removed: Iterable[SaslMechanism] = (),
) -> None:
    """Set and remove passwords of one user, at the controller; a new user is made.

    Takes milliseconds for each password. Raises Refused, and UserError where it is not reached or a
    password is not text.
    """
    upsertions = []
    for each in passwords:
        salt = secrets.token_bytes(SALT_BYTES)
        try:
            salted = salted_password(each.mechanism, each.password, salt, each.iterations)
        except UnicodeEncodeError:  # whose text is the password
            raise UserError("a password has to be text in UTF-8") from None
        upsertions.append(
            ScramCredentialUpsertion(
                name=name,
                mechanism=MECHANISM_CODES[each.mechanism],
                iterations=each.iterations,
                salt=salt,
                salted_password=salted,
            )
        )
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(
            ScramCredentialDeletion(name=name, mechanism=MECHANISM_CODES[mechanism])
            for mechanism in removed
        ),
        upsertions=tuple(upsertions),
    )
    with _controller(client) as controller:
        for result in controller.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request).results:
            _check(result.error_code, result.error_message)


def _controller(client: SocketClient) -> SocketClient:
    asked = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=False
    )
    told = client.call(ApiKey.DESCRIBE_CLUSTER, asked)
    brokers: Mapping[int, tuple[str, int]] = {
        each.broker_id: (each.host, each.port) for each in told.brokers
    }
    if told.controller_id not in brokers:
        raise UserError("the cluster has no controller at present: try again")
    return SocketClient.connect(
        Servers([brokers[told.controller_id]], client.security), "milena-users"
    )


def _check(code: ErrorCode, message: str | None) -> None:
    if code is not ErrorCode.none:
        raise Refused(code, message or "")
