"""The four-letter words that list connections, sessions and watches (cons, dump, wchs, wchc, wchp),
in the layout of ZooKeeper 3.8. Pure.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from cluster.coordinator.registry.server.server import Connection, RegistryServer
from cluster.coordinator.registry.wire.codes import Operation
from cluster.model.clocks import Moment

SESSIONLESS_TIMEOUT_MS: Final = 10_000
"""The time that a connection may stay without a session."""
_SHORT_NAMES: Final = {
    Operation.CREATE: "CREA",
    Operation.CREATE2: "CRE2",
    Operation.CREATE_CONTAINER: "CREC",
    Operation.CREATE_TTL: "CRTT",
    Operation.DELETE: "DELE",
    Operation.EXISTS: "EXIS",
    Operation.GET_DATA: "GETD",
    Operation.SET_DATA: "SETD",
    Operation.GET_ACL: "GETA",
    Operation.SET_ACL: "SETA",
    Operation.GET_CHILDREN: "GETC",
    Operation.GET_CHILDREN2: "GETC",
    Operation.SYNC: "SYNC",
    Operation.PING: "PING",
    Operation.CHECK: "CHEC",
    Operation.MULTI: "MULT",
    Operation.MULTI_READ: "MLTR",
    Operation.SET_WATCHES: "SETW",
    Operation.SET_WATCHES2: "STW2",
    Operation.ADD_WATCH: "ADDW",
    Operation.CHECK_WATCHES: "CHKW",
    Operation.REMOVE_WATCHES: "REMW",
    Operation.GET_EPHEMERALS: "GETE",
    Operation.GET_ALL_CHILDREN_NUMBER: "GETACN",
    Operation.WHO_AM_I: "HOMI",
    Operation.SASL: "SASL",
    Operation.CLOSE_SESSION: "CLOS",
}


def list_connections(server: RegistryServer, _now: Moment) -> str:
    """`cons`: each connection with its session and its figures."""
    lines = (f"{brief(one)[:-1]}{_details(one)})\n" for one in server.connections.values())
    return "".join(lines) + "\n"


def brief(connection: Connection) -> str:
    """One connection in the format of `stat`; [1] means that requests are read from it."""
    return (
        f" /{connection.address}[{int(connection.session is not None)}]"
        f"(queued=0,recved={connection.received_count},sent={connection.sent_count})"
    )


def _details(connection: Connection) -> str:
    session, latency = connection.session, connection.latency
    if session is None:
        return ""
    name = _SHORT_NAMES.get(connection.last_operation, "NA")  # type: ignore[call-overload]
    return (
        f",sid={session.session_id:#x},lop={name},est={connection.connected_wall_ms}"
        f",to={session.timeout_ms},lcxid={connection.last_xid & 0xFFFF_FFFF:#x}"
        f",lzxid={connection.last_zxid & 0xFFFF_FFFF_FFFF_FFFF:#x}"
        f",lresp={connection.last_reply_ms},llat={latency.last_ms},minlat={latency.min_ms}"
        f",avglat={int(latency.average_ms)},maxlat={latency.max_ms}"
    )


def dump(server: RegistryServer, now: Moment) -> str:
    """`dump`: sessions by expiry, ephemeral nodes by session, connections by expiry."""
    sessions = server.state.sessions
    by_expiry: dict[int, list[str]] = {}
    for session in sessions:
        by_expiry.setdefault(session.bucket_ms, []).append(f"\t{session.session_id:#x}")
    connections: dict[int, list[str]] = {}
    for one in server.connections.values():
        session_id = 0 if one.session is None else one.session.session_id
        expiry_ms = (
            one.connected_ms + SESSIONLESS_TIMEOUT_MS
            if one.session is None
            else one.session.bucket_ms
        )
        connections.setdefault(expiry_ms, []).append(
            f"\tip: /{one.address} sessionId: {session_id:#x}"
        )
    owned = [
        (session.session_id, paths)
        for session in sessions
        if (paths := server.state.tree.ephemerals_of(session.session_id))
    ]
    lines = [
        "SessionTracker dump:",
        *_expiry_sets("Session", by_expiry, now),
        "ephemeral nodes dump:",
        f"Sessions with Ephemerals ({len(owned)}):",
    ]
    for session_id, paths in owned:
        lines += [f"{session_id:#x}:", *(f"\t{path}" for path in paths)]
    lines += ["Connections dump:", *_expiry_sets("Connections", connections, now)]
    return "".join(f"{line}\n" for line in lines)


def _expiry_sets(kind: str, members: dict[int, list[str]], now: Moment) -> list[str]:
    lines = [f"{kind} Sets ({len(members)})/({sum(map(len, members.values()))}):"]
    for expiry_ms in sorted(members):
        wall_seconds = (now.wall_ms + expiry_ms - now.monotonic_ms) / 1000
        when = datetime.fromtimestamp(wall_seconds, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
        lines += [f"{len(members[expiry_ms])} expire at {when}:", *members[expiry_ms]]
    return lines


def sum_up_watches(server: RegistryServer, _now: Moment) -> str:
    """`wchs`: the number of clients and of paths that they watch for data or existence."""
    by_path = server.watches.data_watchers()
    watchers = {connection_id for ids in by_path.values() for connection_id in ids}
    total = sum(map(len, by_path.values()))
    return f"{len(watchers)} connections watching {len(by_path)} paths\nTotal watches:{total}\n"


def list_watches_by_session(server: RegistryServer, _now: Moment) -> str:
    """`wchc`: the paths that each session watches."""
    by_session: dict[str, list[str]] = {}
    for path, connection_ids in server.watches.data_watchers().items():
        for session_id in _sessions_of(server, connection_ids):
            by_session.setdefault(session_id, []).append(path)
    return _tree_of(by_session)


def list_watches_by_path(server: RegistryServer, _now: Moment) -> str:
    """`wchp`: the sessions that watch each path."""
    return _tree_of(
        {
            path: _sessions_of(server, connection_ids)
            for path, connection_ids in server.watches.data_watchers().items()
        }
    )


def _sessions_of(server: RegistryServer, connection_ids: Iterable[int]) -> list[str]:
    sessions = (server.connections[one].session for one in connection_ids)
    return [f"{session.session_id:#x}" for session in sessions if session is not None]


def _tree_of(branches: dict[str, list[str]]) -> str:
    parts = ("\n\t".join((name, *leaves)) + "\n" for name, leaves in branches.items())
    return "".join(parts) + "\n"


LISTINGS: Final[dict[bytes, Callable[[RegistryServer, Moment], str]]] = {
    b"cons": list_connections,
    b"dump": dump,
    b"wchs": sum_up_watches,
    b"wchc": list_watches_by_session,
    b"wchp": list_watches_by_path,
}
