"""Passwords of users in `configs`: `SCRAM-SHA-512=[iterations=8192,password=...]` (KIP-554)."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.client.socket_client import SocketClient
from cluster.client.user_requests import Iterations, NewPassword, alter_user, describe_users
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.model.quotas import DEFAULT
from cluster.model.scram import DEFAULT_ITERATIONS, MECHANISMS, MIN_ITERATIONS, can_log_in
from cluster.model.security import SaslMechanism
from cluster.protocol.api import ApiKey
from cluster.tools.configs.entities import Entity

KEYS: Final = frozenset(mechanism.value for mechanism in MECHANISMS)
_VALUE: Final = re.compile(r"(?:iterations=([0-9]+),)?password=(.+)", re.DOTALL)


def alter_scram(
    client: SocketClient, found: list[Entity], added: Mapping[str, str], deleted: Iterable[str]
) -> None:
    """Set and remove passwords of one user. Raises Refused and UserError."""
    (user,) = found
    if user.type != "users" or user.name is DEFAULT or user.name is None:
        raise Refused(
            ErrorCode.invalid_request,
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM"
            " Credentials",
        )
    name = str(user.name)
    removed = [SaslMechanism(key) for key in deleted]
    present = describe_users(client, [name]).get(name, {}) if removed else {}
    missing = [each for each in removed if each not in present]
    if missing:
        raise Refused(ErrorCode.invalid_config, f"Invalid config(s): {', '.join(missing)}")
    passwords = [_password(SaslMechanism(key), text) for key, text in added.items()]
    if passwords:
        check_name(name)
    alter_user(client, name, passwords, removed)


def check_name(user: str) -> None:
    """Raise UserError for a user who could not log in by SCRAM, whatever the password."""
    if user and not can_log_in(user):
        raise UserError(
            f"nobody can log in by SCRAM as {one_line(user)}: a name has ASCII characters only"
        )


def _password(mechanism: SaslMechanism, text: str) -> NewPassword:
    """Parse one value; no refusal quotes it."""
    matched = _VALUE.fullmatch(text)
    if matched is None:
        raise Refused(
            ErrorCode.invalid_request,
            f"Invalid value for {mechanism}: write {mechanism}=[iterations=N,password=...]",
        )
    iterations = int(matched[1] or DEFAULT_ITERATIONS)
    if iterations < MIN_ITERATIONS:
        raise Refused(
            ErrorCode.invalid_request,
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for"
            f" {mechanism}",
        )
    return NewPassword(mechanism, matched[2], iterations)


def users_of(client: SocketClient, found: list[Entity]) -> dict[str, Iterations]:
    """The users with passwords among the entities, as Kafka's tool shows them beside quotas."""
    if [each.type for each in found] != ["users"] or found[0].name is DEFAULT:
        return {}
    if not client.serves(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS):
        return {}
    name = found[0].name
    return describe_users(client, None if name is None else [str(name)])


def scram_line(user: str, ways: Iterations) -> str:
    """The line for one user's passwords."""
    values = ", ".join(f"{key}=iterations={count}" for key, count in sorted(ways.items()))
    return f"SCRAM credential configs for user-principal '{one_line(user)}' are {values}"
