"""Access control lists in Kafka's words: resources, patterns of names, operations, filters. Pure.

Kafka: `org.apache.kafka.common.acl`, `.resource` and `SecurityUtils`; codes are those of the
protocol.
"""

import functools
import ipaddress
from enum import IntEnum
from typing import Final, NamedTuple, Self

CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""
WILDCARD: Final = "*"
"""As the name of a literal pattern, every resource of its type; as a host, every host."""
USER_PREFIX: Final = "User:"
EVERYBODY: Final = "User:*"


@functools.cache
def _label(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


class _Word(IntEnum):
    """One of Kafka's enums: a code in the protocol, a name in the registry and for people."""

    __hash__ = (
        int.__hash__
    )  # the hash of an enum is a call in Python, and these are in keys of a cache

    @property
    def label(self) -> str:
        """The spelling in documents and audit lines: `DescribeConfigs` for DESCRIBE_CONFIGS."""
        return _label(self.name)

    @classmethod
    def of_label(cls, text: str) -> Self:
        """The word with this label, ignoring case. Raises ValueError."""
        wanted = text.replace("_", "").upper()
        for word in cls:
            if word.name.replace("_", "") == wanted:
                return word
        raise ValueError(f"{text!r} is no {cls.__name__}")

    @classmethod
    def of_code(cls, code: int) -> Self:
        """The word with this code; UNKNOWN for other codes."""
        try:
            return cls(code)
        except ValueError:
            return cls(0)


class ResourceType(_Word):
    """The types of resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Word):
    """How a pattern matches names of resources; ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Word):
    """The operations on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Word):
    """Whether a rule denies or allows."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES: Final = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)
"""The types of resources, without those of filters."""

_OP = AclOperation
SUPPORTED_OPERATIONS: Final[dict[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        _OP.READ,
        _OP.WRITE,
        _OP.CREATE,
        _OP.DELETE,
        _OP.ALTER,
        _OP.DESCRIBE,
        _OP.DESCRIBE_CONFIGS,
        _OP.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        _OP.READ,
        _OP.DELETE,
        _OP.DESCRIBE,
        _OP.DESCRIBE_CONFIGS,
        _OP.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        _OP.CREATE,
        _OP.ALTER,
        _OP.DESCRIBE,
        _OP.CLUSTER_ACTION,
        _OP.DESCRIBE_CONFIGS,
        _OP.ALTER_CONFIGS,
        _OP.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_OP.WRITE, _OP.DESCRIBE, _OP.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_OP.DESCRIBE,),
    ResourceType.USER: (_OP.CREATE_TOKENS, _OP.DESCRIBE_TOKENS),
}
"""The operations on a resource of each type (Kafka 4.1: `AclEntry.supportedOperations`)."""


class Right(NamedTuple):
    """A right that is required: an operation on resources of a type."""

    operation: AclOperation
    resource_type: ResourceType

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.resource_type.name}"


class ResourcePattern(NamedTuple):
    """The resources that a rule applies to."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{self.resource_type.label}:{self.pattern_type.name}:{self.name}"


class AclEntry(NamedTuple):
    """The principal, host and operation of a rule, and whether it allows or denies."""

    principal: str
    """With its type: `User:alice`; `User:*` means everybody."""
    host: str
    """An address, or `*`."""
    operation: AclOperation
    permission: AclPermission


class AclBinding(NamedTuple):
    """One rule."""

    pattern: ResourcePattern
    entry: AclEntry


class AclFilter(NamedTuple):
    """Selects rules; None and the words ANY select all."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def has_unknown(self) -> bool:
        """Whether it contains an unknown word."""
        words = (self.resource_type, self.pattern_type, self.operation, self.permission)
        return any(word == 0 for word in words)

    def selects(self, binding: AclBinding) -> bool:
        """Whether it selects the rule (`AclBindingFilter.matches`)."""
        return self.selects_pattern(binding.pattern) and self.selects_entry(binding.entry)

    def selects_pattern(self, pattern: ResourcePattern) -> bool:
        """`ResourcePatternFilter.matches`; MATCH means every pattern that covers the name."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        wanted = self.pattern_type
        if wanted not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if wanted is PatternType.MATCH:
            return covers(pattern, self.name)
        return self.name == pattern.name

    def selects_entry(self, entry: AclEntry) -> bool:
        """`AccessControlEntryFilter.matches`."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )


def covers(pattern: ResourcePattern, name: str) -> bool:
    """Whether a pattern applies to a resource of this name."""
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)


def plain_address(host: str) -> str:
    """The canonical text of an address.

    An IPv4 address in IPv6 form (RFC 4291, 2.5.5.2) becomes IPv4, and an interface name is removed.
    Other texts are returned unchanged.
    """
    if host == WILDCARD:
        return host
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(address if mapped is None else mapped)
