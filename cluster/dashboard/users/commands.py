"""Command lines that change users and access rules. Pure."""

import shlex
from typing import Final

from cluster.model.acls import (
    USER_PREFIX,
    WILDCARD,
    AclBinding,
    AclPermission,
    PatternType,
    ResourceType,
)

_OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


def removal_command(program: str, binding: AclBinding) -> str | None:
    """The `acls --remove` of this rule alone; None for a rule that its options cannot name.

    `program` is the launcher with its data directory, quoted for a shell.
    """
    pattern, entry = binding
    texts = (pattern.name, entry.principal, entry.host)
    if not entry.principal.startswith(USER_PREFIX) or any(text != text.strip() for text in texts):
        return None
    verb = "deny" if entry.permission is AclPermission.DENY else "allow"
    words = ["--remove", f"--{verb}-principal={entry.principal}"]
    if entry.host != WILDCARD:
        words.append(f"--{verb}-host={entry.host}")
    words.append(f"--operation={entry.operation.label}")
    option = _OPTIONS.get(pattern.resource_type)
    words.append("--cluster" if option is None else f"{option}={pattern.name}")
    if pattern.pattern_type is PatternType.PREFIXED:
        words.append("--resource-pattern-type=prefixed")
    return f"{program} acls {shlex.join(words)}"


def user_command(program: str, action: str, name: str) -> str:
    """`users alter NAME`, for one."""
    words = ["--", name] if name.startswith("-") else [name]
    return f"{program} users {action} {shlex.join(words)}"
