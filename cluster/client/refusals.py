"""Says in a sentence why a broker refused a request."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cluster.model.acls import USER_PREFIX
from cluster.model.errors import ErrorCode, Refused
from cluster.model.security import ANONYMOUS

if TYPE_CHECKING:
    from cluster.client.security import ClientSecurity

_TEXTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.group_id_not_found: "The group id does not exist",
    ErrorCode.non_empty_group: "The group is not empty",
    ErrorCode.invalid_group_id: "Invalid group id",
}
PRODUCER: Final = "--producer"
"""Needs a topic, and may have a transactional id."""
CONSUMER: Final = "--consumer"
"""Needs a topic and a group."""


def reason_of(refused: Refused) -> str:
    """The broker's words, else those of the error code."""
    if refused.detail:
        return refused.detail
    return _TEXTS.get(refused.code) or refused.code.name.replace("_", " ").capitalize()


def principal_of(security: "ClientSecurity") -> str:
    """The principal of a client; `User:NAME` if a certificate or a token has the name."""
    if security.protocol.has_sasl:
        name = "" if security.token_auth else security.username
        return f"{USER_PREFIX}{name or 'NAME'}"
    return f"{USER_PREFIX}{ANONYMOUS if security.certificate_pem is None else 'NAME'}"


def allowing_words(principal: str, operation: str, resources: Sequence[str]) -> str:
    """The options of `acls` that allow an operation on resources: `--cluster`, or an option
    and a name for each. PRODUCER and CONSUMER allow all that such a client does with them.
    """
    granted = [operation] if operation in (PRODUCER, CONSUMER) else ["--operation", operation]
    words = ["--add", "--allow-principal", principal, *granted]
    for at in range(0, len(resources), 2):
        option, *value = resources[at : at + 2]
        # A value that begins with a dash would be taken for an option.
        is_dashed = bool(value) and value[0].startswith("-")
        words += [f"{option}={value[0]}"] if is_dashed else [option, *value]
    return shlex.join(words)
