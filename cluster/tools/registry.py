"""`registry`: shows and changes znodes of a registry or ZooKeeper, with the output of zkCli."""

import argparse
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.paths import join
from kazoo.protocol.states import KazooState, ZnodeStat

from cluster.config.broker import BROKER_SETTINGS, ZOOKEEPER_SSL_CLIENT_ENABLE
from cluster.config.properties_file import read_properties_file
from cluster.config.setting import SettingError
from cluster.config.snapshot import Layer, Settings, Source
from cluster.coordinator.registry.client.kazoo_setup import kazoo_arguments, start_client
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.client.registry_settings import tls_of
from cluster.datadir.registry_auth import registry_access
from cluster.model.clocks import WallMs
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.runtime.tls_options import TlsClientOptions
from cluster.tools.arguments import UsageError, add_command, data_dir, running_state
from cluster.tools.options import warn_of_readers

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

CONNECT_TIMEOUT_S: Final = 5.0
_SESSION_TIMEOUT_S: Final = 10.0
_TLS_PREFIX: Final = "zookeeper.ssl."
_REFUSALS: Final[dict[type[KazooException], str]] = {
    NoNodeError: "Node does not exist: {path}",
    NodeExistsError: "Node already exists: {path}",
    NotEmptyError: "Node not empty: {path}",
    BadVersionError: "version No is not valid : {path}",
    NoChildrenForEphemeralsError: "Ephemerals cannot have children: {path}",
    NoAuthError: "Insufficient permission : {path}",
    InvalidACLError: "Acl is not valid : {path}",
    BadArgumentsError: "Arguments are not valid : {path}",
}
"""Error messages as zkCli prints them."""

Act = Callable[[KazooClient, argparse.Namespace], None]


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `registry` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "registry",
        "registry ls /brokers/ids",
        "registry get /controller",
        "registry watch --recursive /brokers",
        "registry --server 10.0.0.7:2181/kafka ls /",
    )
    parser.add_argument(
        "--server",
        metavar="HOST:PORT[/CHROOT]",
        help="another registry or ZooKeeper than that of the running cluster",
    )
    parser.add_argument(
        "--auth",
        metavar="SCHEME:AUTH",
        help="prove an identity first: sasl:USER:PASSWORD, digest:USER:PASSWORD, or @FILE that"
        " holds such a line and only you can read (default: that of the running cluster)",
    )
    parser.add_argument(
        "--zk-tls-config-file",
        metavar="FILE",
        type=Path,
        help="reach it over TLS as the zookeeper.ssl.* properties in this file say (as for Kafka's"
        " tools; a broker's own properties file will do)",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for name, (summary, _) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        action.add_argument("path", metavar="PATH", type=_path)
        _add_options(name, action)


def _add_options(name: str, action: argparse.ArgumentParser) -> None:
    if name in ("ls", "get", "set"):
        action.add_argument("-s", "--stat", action="store_true", help="and the Stat")
    if name in ("ls", "delete", "watch"):
        action.add_argument("-R", "--recursive", action="store_true", help="and all below it")
    if name == "create":
        action.add_argument(
            "-s", "--sequential", action="store_true", help="end the name in the next number"
        )
        action.add_argument("data", metavar="DATA", nargs="?", default="")
    if name == "set":
        action.add_argument("data", metavar="DATA")
    if name in ("set", "delete"):
        action.add_argument(
            "-v", "--version", type=int, default=-1, metavar="N", help="only at this version"
        )
    if name == "watch":
        action.add_argument(
            "--count", type=int, metavar="N", help="end after N events (default: Ctrl-C ends it)"
        )


def run(args: argparse.Namespace) -> int:
    """Do one action and print its result as zkCli would. Returns the exit status."""
    if args.action == "delete" and args.recursive and args.version != -1:
        raise UsageError("--version does not go with --recursive")
    server = args.server or str(running_state(args)["registry"])
    _, act = _ACTIONS[args.action]
    access = _access(args)
    tls_file = args.zk_tls_config_file
    if tls_file is None and not args.server:
        own = data_dir(args).registry_properties
        tls_file = own if own.exists() else None
    if tls_file is not None:
        access = replace(access, tls=_tls_of_file(tls_file))
    with _connected(server, access) as client:
        try:
            act(client, args)
        except KazooException as refused:
            wording = _REFUSALS.get(type(refused))
            if wording is None:
                raise UserError(f"{type(refused).__name__}: {args.path}") from None
            raise UserError(wording.format(path=args.path)) from None
    return 0


def _access(args: argparse.Namespace) -> RegistryAccess:
    given: str | None = args.auth
    if given is None:
        return NOBODY if args.server else registry_access(data_dir(args).registry_auth_file)
    if given.startswith("@"):
        return registry_access(Path(given[1:]), is_needed=True)
    try:
        return RegistryAccess.parse(given)
    except ValueError as problem:
        raise UsageError(f"--auth: {problem}") from None


def _tls_of_file(path: Path) -> TlsClientOptions | None:
    """Properties of other names are left alone, as Kafka's tools do."""
    texts = read_properties_file(path).texts
    warn_of_readers(path, texts)
    mine = {name: text for name, text in texts.items() if name.startswith(_TLS_PREFIX)}
    enabled = {ZOOKEEPER_SSL_CLIENT_ENABLE.name: "true"}
    try:
        settings = Settings(BROKER_SETTINGS, [Layer(Source.STATIC_BROKER, enabled | mine)])
    except SettingError as problem:
        raise UserError(f"{path}: {problem}") from None
    return tls_of(settings)


class _LastFailure(logging.Handler):
    """Keeps why kazoo's last try to connect failed, which it would print for each of its tries."""

    reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        said, _, reason = record.getMessage().partition(": ")
        if said == "Connection dropped":
            self.reason = f": {reason}"

    @contextlib.contextmanager
    def remembered(self) -> Iterator[None]:
        """Print nothing until the end."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)


@contextlib.contextmanager
def _connected(server: str, access: RegistryAccess) -> Iterator[KazooClient]:
    client = KazooClient(server, timeout=_SESSION_TIMEOUT_S, **kazoo_arguments(access))
    tries = _LastFailure()
    try:
        with tries.remembered():
            start_client(client, CONNECT_TIMEOUT_S)
    except KazooTimeoutError:
        raise UserError(f"no registry answers at {server}{tries.reason}") from None
    except AuthFailedError:
        raise UserError(f"{server} does not take this proof of identity (--auth)") from None
    finally:
        if not client.connected:
            client.stop()
            client.close()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _ls(client: KazooClient, args: argparse.Namespace) -> None:
    if args.recursive:
        for path in _below(client, args.path):
            print(one_line(path, None))
        return
    names, stat = client.get_children(args.path, include_data=True)
    print(one_line(f"[{', '.join(sorted(names))}]", None))
    if args.stat:
        print_stat(stat)


def _below(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    for name in sorted(client.get_children(path)):
        yield from _below(client, join(path, name))


def _get(client: KazooClient, args: argparse.Namespace) -> None:
    data, stat = client.get(args.path)
    print(data.decode("utf-8", "backslashreplace") if data is not None else "null")
    if args.stat:
        print_stat(stat)


def _stat(client: KazooClient, args: argparse.Namespace) -> None:
    stat = client.exists(args.path)
    if stat is None:
        raise NoNodeError
    print_stat(stat)


def _create(client: KazooClient, args: argparse.Namespace) -> None:
    made = client.create(args.path, args.data.encode(), sequence=args.sequential)
    print(f"Created {one_line(made, None)}")


def _set(client: KazooClient, args: argparse.Namespace) -> None:
    stat = client.set(args.path, args.data.encode(), version=args.version)
    if args.stat:
        print_stat(stat)


def _delete(client: KazooClient, args: argparse.Namespace) -> None:
    if args.recursive and client.exists(args.path) is None:
        raise NoNodeError  # kazoo itself would report success
    client.delete(args.path, version=args.version, recursive=args.recursive)


def _watch(client: KazooClient, args: argparse.Namespace) -> None:
    _Watch(client, args.path, recursive=args.recursive).run(args.count)


class _Watch:
    """Prints the events of a path, or of its descendants too.

    It uses kazoo's DataWatch and ChildrenWatch: they renew their watches after every event and
    every lost connection, and work with every version of ZooKeeper.
    """

    def __init__(self, client: KazooClient, top: str, *, recursive: bool) -> None:
        self._client = client
        self._top = top
        self._recursive = recursive
        self._events: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._watched: set[str] = set()

    def run(self, count: int | None) -> None:
        """Print `count` events, or without end for None. Raises UserError if the session ends."""
        lost = threading.Event()
        self._client.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
        self._watch_znode(self._top, is_new=False)
        printed = 0
        while count is None or printed < count:
            try:
                event, path = self._events.get(timeout=1.0)
            except queue.Empty:
                if lost.is_set():
                    raise UserError("the session with the registry has ended") from None
            else:
                printed += 1
                print(
                    f"\nWATCHER::\n\nWatchedEvent state:SyncConnected type:{event}"
                    f" path:{one_line(path, None)}",
                    flush=True,
                )

    def _watch_znode(self, path: str, *, is_new: bool) -> None:
        """`is_new`: it was created after its parent was watched, so print a NodeCreated event."""
        self._watched.add(path)
        before: ZnodeStat | None = None
        is_event = is_new

        def on_look(_content: bytes | None, now: ZnodeStat | None) -> bool:
            nonlocal before, is_event
            if now is None and before is not None:
                self._events.put(("NodeDeleted", path))
            elif now is not None and before is not None:
                self._events.put(("NodeDataChanged", path))
            elif now is not None:
                if is_event:
                    self._events.put(("NodeCreated", path))
                self._watch_children(path, is_new=is_event)
            before, is_event = now, True
            is_over = now is None and path != self._top  # a new one is seen by the parent's watch
            if is_over:
                self._watched.discard(path)
            return not is_over

        self._client.DataWatch(path, on_look)

    def _watch_children(self, path: str, *, is_new: bool) -> None:
        is_event = is_new and self._recursive

        def on_look(names: list[str]) -> None:
            nonlocal is_event
            if self._recursive:
                for name in sorted(names):
                    # A child may be deleted again already, or be unreadable with our identity.
                    with contextlib.suppress(NoNodeError, NoAuthError):
                        if (child := join(path, name)) not in self._watched:
                            self._watch_znode(child, is_new=is_event)
            elif is_event:
                self._events.put(("NodeChildrenChanged", path))
            is_event = True

        self._client.ChildrenWatch(path, on_look)


def print_stat(stat: ZnodeStat) -> None:
    """A Stat, as zkCli prints it."""
    owner = stat.ephemeralOwner & 0xFFFF_FFFF_FFFF_FFFF
    print(
        f"cZxid = {stat.czxid:#x}",
        f"ctime = {_date(stat.ctime)}",
        f"mZxid = {stat.mzxid:#x}",
        f"mtime = {_date(stat.mtime)}",
        f"pZxid = {stat.pzxid:#x}",
        f"cversion = {stat.cversion}",
        f"dataVersion = {stat.version}",
        f"aclVersion = {stat.aversion}",
        f"ephemeralOwner = {owner:#x}",
        f"dataLength = {stat.dataLength}",
        f"numChildren = {stat.numChildren}",
        sep="\n",
    )


def _date(wall_ms: WallMs) -> str:
    """The time in this machine's time zone, in the format of Java's `Date.toString`."""
    return datetime.fromtimestamp(wall_ms / 1000).astimezone().strftime("%a %b %d %H:%M:%S %Z %Y")


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError("a path starts with /")
    if text != "/" and text.endswith("/"):
        raise argparse.ArgumentTypeError("a path does not end with /")
    return text


_ACTIONS: Final[dict[str, tuple[str, Act]]] = {
    "ls": ("list the children of a znode", _ls),
    "get": ("show the data of a znode", _get),
    "stat": ("show the Stat of a znode", _stat),
    "create": ("make a znode", _create),
    "set": ("set the data of a znode", _set),
    "delete": ("delete a znode", _delete),
    "watch": ("print what happens at a path", _watch),
}
