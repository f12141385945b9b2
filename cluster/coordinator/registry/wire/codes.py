"""ZooKeeper's numbers: operations, error codes, event types, create flags, permissions.

Sources: `ZooDefs`, `KeeperException.Code`, `Watcher.Event`, `CreateMode` of ZooKeeper 3.8.
"""

from enum import IntEnum, IntFlag
from typing import Final


class Operation(IntEnum):
    """`ZooDefs.OpCode`: the operation in a request header."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11
    ERROR = -1


WRITES: Final = frozenset(
    {
        Operation.CREATE,
        Operation.DELETE,
        Operation.SET_DATA,
        Operation.SET_ACL,
        Operation.CHECK,
        Operation.MULTI,
        Operation.CREATE2,
        Operation.RECONFIG,
        Operation.CREATE_CONTAINER,
        Operation.DELETE_CONTAINER,
        Operation.CREATE_TTL,
    }
)
"""Operations that take a zxid, whether they succeed or are refused."""


class RegistryError(IntEnum):
    """`KeeperException.Code`: the error field of a reply."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    INVALID_ACL = -114
    AUTH_FAILED = -115
    NOT_READ_ONLY = -119
    NO_WATCHER = -121
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124


class OperationRefused(Exception):
    """A request is answered with an error code; connection and session go on."""

    def __init__(self, code: RegistryError) -> None:
        super().__init__(code.name)
        self.code = code


class EventType(IntEnum):
    """`Watcher.Event.EventType`: the type field of a notification."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


class CreateFlag(IntEnum):
    """`CreateMode`: the flags field of a create request."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


SEQUENTIAL_FLAGS: Final = frozenset(
    {
        CreateFlag.PERSISTENT_SEQUENTIAL,
        CreateFlag.EPHEMERAL_SEQUENTIAL,
        CreateFlag.PERSISTENT_SEQUENTIAL_WITH_TTL,
    }
)
EPHEMERAL_FLAGS: Final = frozenset({CreateFlag.EPHEMERAL, CreateFlag.EPHEMERAL_SEQUENTIAL})
TTL_FLAGS: Final = frozenset(
    {CreateFlag.PERSISTENT_WITH_TTL, CreateFlag.PERSISTENT_SEQUENTIAL_WITH_TTL}
)


class Permission(IntFlag):
    """`ZooDefs.Perms`: the bits of an ACL entry."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16


class AddWatchMode(IntEnum):
    """`AddWatchMode`: the kind of watch that addWatch leaves on a path."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class WatcherType(IntEnum):
    """`Watcher.WatcherType`: the watches that checkWatches and removeWatches refer to."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


ANY_VERSION: Final = -1
SYNC_CONNECTED: Final = 3
"""`KeeperState.SyncConnected`: the state field of every notification."""

NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
