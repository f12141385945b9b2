"""Says which access rule a refused command lacks, as the command that adds it."""

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from cluster.client.refusals import CONSUMER, PRODUCER, allowing_words, principal_of
from cluster.model.acls import USER_PREFIX
from cluster.model.errors import ErrorCode, UserError
from cluster.runtime.installation import launcher
from cluster.tools.arguments import data_dir, running_state, stated_servers

if TYPE_CHECKING:
    from cluster.client.security import ClientSecurity

_OPERATIONS: Final[Mapping[ErrorCode, Mapping[str, str]]] = {
    ErrorCode.topic_authorization_failed: {
        "topics create": "Create",
        "topics describe": "Describe",
        "topics alter": "Alter",
        "topics delete": "Delete",
        "configs describe": "DescribeConfigs",
        "configs alter": "AlterConfigs",
        "consume": "Read",
        "delete-records": "Delete",
        "load-test": "Create",
        "groups describe": "Describe",
        "groups reset-offsets": "Read",
        "groups delete-offsets": "Read",
        "transactions describe-producers": "Read",
    },
    ErrorCode.group_authorization_failed: {
        "consume": "Read",
        "configs describe": "DescribeConfigs",
        "configs alter": "AlterConfigs",
        "groups describe": "Describe",
        "groups explain": "Describe",
        "groups delete": "Delete",
        "groups reset-offsets": "Read",
        "groups delete-offsets": "Delete",
        "load-test": "Read",
    },
    ErrorCode.transactional_id_authorization_failed: {
        "transactions describe": "Describe",
        "transactions force-terminate": "Write",
    },
    ErrorCode.cluster_authorization_failed: {
        "acls add": "Alter",
        "acls remove": "Alter",
        "acls list": "Describe",
        "client-metrics alter": "AlterConfigs",
        "client-metrics delete": "AlterConfigs",
        "client-metrics describe": "DescribeConfigs",
        "client-metrics list": "DescribeConfigs",
        "client-metrics show": "Describe",
        "configs describe": "DescribeConfigs",
        "configs alter": "AlterConfigs",
        "log-dirs": "Describe",
        "partitions elect-leaders": "Alter",
        "partitions reassign": "Alter",
        "partitions balance": "Alter",
        "quotas list": "DescribeConfigs",
        "quotas set": "AlterConfigs",
        "quotas unset": "AlterConfigs",
        "remove-broker": "Alter",
        "transactions abort": "Alter",
        "users add": "Alter",
        "users alter": "Alter",
        "users delete": "Alter",
        "users list": "Describe",
    },
}
"""The operation that a command and its action need, by what the broker refused."""
_ROLES: Final[Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "produce": (PRODUCER, ("topic",), ("transactional_id",)),
    "import-log": (PRODUCER, ("topic",), ()),
    "consume": (CONSUMER, ("topic", "group"), ()),
}
"""Commands that need several rights, which one rule grants: its role, the options that it must
have, and those that it may have. Without one of the former the operation alone is granted."""
_OPTIONS: Final = {
    ErrorCode.topic_authorization_failed: "topic",
    ErrorCode.group_authorization_failed: "group",
    ErrorCode.transactional_id_authorization_failed: "transactional_id",
}
_ACTIONS: Final = (
    *("action", "group_command", "partitions_command", "quota_command"),
    *("transaction_command", "user_action"),
)
"""Where parsers store the action or the sub-command."""
_is_topic_name: Final = re.compile(r"[\w.-]+", re.ASCII).fullmatch


def right_hint(
    code: ErrorCode | int, args: argparse.Namespace, names: Iterable[str] | None = None
) -> str:
    """`; to allow it: ... acls --add ...`; empty where no access rule is missing or known.

    `names` are those of the resources, if no option of the command has them.
    """
    if code not in _OPERATIONS:
        return ""
    operation, resources = _role(args) or _operation(ErrorCode(code), args, names)
    if not resources:
        return ""
    words = allowing_words(_principal(args), operation, resources)
    return f"; to allow it: {_acls(args)} {words}"


def _role(args: argparse.Namespace) -> tuple[str, list[str]] | None:
    """The role of the command with the resources that it is for."""
    role, needed, possible = _ROLES.get(action_of(args), ("", (), ()))
    named = {option: _names(args, option) for option in (*needed, *possible)}
    if not needed or not all(named[option] for option in needed):
        return None
    return role, [word for option, found in named.items() for word in _words(option, found)]


def _operation(
    code: ErrorCode, args: argparse.Namespace, names: Iterable[str] | None
) -> tuple[str, list[str]]:
    """The operation that was refused, and on which resources; none if that is not known."""
    operation = _OPERATIONS[code].get(action_of(args))
    if operation is None:
        return "", []
    if code not in _OPTIONS:
        return operation, ["--cluster"]
    option = _OPTIONS[code]
    return operation, _words(option, _names(args, option) if names is None else names)


def _words(option: str, names: Iterable[str]) -> list[str]:
    return [word for name in names for word in (f"--{option.replace('_', '-')}", name)]


def action_of(args: argparse.Namespace) -> str:
    """The command and its action or sub-command, such as `topics create`."""
    command = getattr(args, "command", None) or ""
    flags = {"acls": ("add", "remove", "list"), "configs": ("describe", "alter")}.get(command, ())
    actions = [name for name in flags if getattr(args, name)]
    actions += [each for name in _ACTIONS if isinstance(each := getattr(args, name, None), str)]
    return " ".join([command, *actions[:1]])


def _names(args: argparse.Namespace, option: str) -> list[str]:
    """The names that an option has; empty if it is missing or a regular expression."""
    given = getattr(args, option, None)
    names = [given] if isinstance(given, str) else [*(given or ())]
    if option == "topic":
        names = [part for name in names for part in name.partition(":")[0].split(",")]
        names = [name for name in names if name] if all(map(_is_topic_name, names)) else []
    return names


def _principal(args: argparse.Namespace) -> str:
    from cluster.tools.kafka_connection import security_of  # imports this module's users

    try:
        security: ClientSecurity = security_of(args)
    except UserError:
        return f"{USER_PREFIX}NAME"
    return principal_of(security)


def _acls(args: argparse.Namespace) -> str:
    """The command `acls` for the same cluster, with the tools' own login if that is known."""
    servers = stated_servers(args)
    try:
        own = str(running_state(args)["bootstrap"]).split(",")
    except UserError:  # none runs, or its supervisor does not answer
        own = []
    if servers is None or set(servers.split(",")) & set(own):
        return f"{launcher(data_dir(args).path)} acls"
    return f"{launcher()} acls --bootstrap-server {shlex.quote(servers)}"
