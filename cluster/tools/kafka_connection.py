"""How commands connect to brokers: by our own client for administrative requests, by
confluent-kafka for records (decision 054).

Imports confluent-kafka only when a client is made, so that help and wrong usage stay fast.
"""

import argparse
import logging
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from cluster.client.security import UNPROTECTED, ClientSecurity, Servers
from cluster.client.security_properties import KEYS, client_security, completed
from cluster.client.timeouts import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
from cluster.model.addresses import BROKER_PORT
from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.runtime.interrupts import deferred_interrupt
from cluster.tools.arguments import UsageError, bootstrap_server, data_dir, stated_servers
from cluster.tools.options import WeakerProperties, key_value

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import ClusterMetadata

    from cluster.client.admin import Admin

_HINT_TIMEOUT_S: Final = 1.0


class KafkaClient(Protocol):
    """What Producer and Consumer have in common."""

    def list_topics(self, topic: str | None = ..., timeout: float = ...) -> "ClusterMetadata":
        """The cluster's brokers, and its topics or one of them."""


Client = TypeVar("Client", bound=KafkaClient)


def add_servers(parser: argparse.ArgumentParser, *, is_nested: bool = False) -> None:
    """Add the options of a connection for administrative requests, by our own client.

    `is_nested`: the options may stand before a sub-command as well.
    """
    _add_bootstrap_server(parser, is_nested=is_nested)
    parser.set_defaults(has_own_client=True)
    parser.add_argument(
        "--command-property",
        dest="command_properties",
        action="append",
        type=key_value,
        default=argparse.SUPPRESS if is_nested else [],
        metavar="KEY=VALUE",
        help="one setting that says how to connect; may be repeated",
    )
    parser.add_argument(
        "--command-config",
        dest="command_properties",
        action=WeakerProperties,
        default=argparse.SUPPRESS if is_nested else [],
        metavar="FILE",
        help="a properties file that says how to connect: security.protocol and what belongs to it",
    )


def _add_bootstrap_server(parser: argparse.ArgumentParser, *, is_nested: bool = False) -> None:
    parser.add_argument(
        "--bootstrap-server",
        default=argparse.SUPPRESS if is_nested else None,
        metavar="HOST:PORT",
        help="another cluster's brokers, separated by commas (default: the one of --data-dir)",
    )


def add_connection(parser: argparse.ArgumentParser, *property_options: str) -> None:
    """Add the options of a client of confluent-kafka, for commands that read or write records.

    `property_options` are other names for the latter in Kafka's tools, e.g. `--producer-property`.
    """
    _add_bootstrap_server(parser)
    parser.add_argument(
        "--command-property",
        *property_options,
        dest="command_properties",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help="one setting of the client (librdkafka's names); may be repeated",
    )
    parser.add_argument(
        "--command-config",
        *(option.replace("-property", ".config") for option in property_options),
        dest="command_properties",
        action=WeakerProperties,
        metavar="FILE",
        help="a properties file with such settings, weaker than those given singly; those about"
        " security may have Java's names too",
    )


def security_of(args: argparse.Namespace) -> ClientSecurity:
    """How the command is to connect: as its options say, else as the secure cluster of the data
    directory demands. Raises UserError.
    """
    given: dict[str, str] = dict(getattr(args, "command_properties", ()))
    if stated_servers(args) is None and (path := data_dir(args).tools_properties).exists():
        from cluster.config.properties_file import read_properties_file  # its library is slow

        given = completed(given, read_properties_file(path).texts)
    if KEYS.isdisjoint(given):
        return UNPROTECTED
    try:
        return client_security(given)
    except UserError as problem:
        raise UsageError(str(problem)) from None


def client_properties(args: argparse.Namespace) -> dict[str, Any]:
    """Settings of a confluent-kafka client in another process, those about security among them.

    Raises UserError.
    """
    return {**security_of(args).librdkafka(), **_other_properties(args)}


def _other_properties(args: argparse.Namespace) -> dict[str, str]:
    given = dict(args.command_properties)
    others = {key: text for key, text in given.items() if key not in KEYS}
    others.pop("bootstrap.servers", None)
    return others


def admin_of(
    args: argparse.Namespace, client_id: str, patience_s: float = REQUEST_TIMEOUT_S
) -> "Admin":
    """A client for administrative requests, connected to one broker. Raises UserError."""
    from cluster.client.admin import Admin  # the messages of all requests take long to load

    servers = servers_of(args)
    try:
        return Admin(servers, client_id, patience_s)
    except UserError as problem:
        raise UserError(_with_known_file(str(problem), args)) from None


def servers_of(args: argparse.Namespace) -> Servers:
    """The brokers to connect to by a `SocketClient`, and how. Raises UserError.

    A command that has no other client says of what else it was given that it does not matter.
    """
    if getattr(args, "has_own_client", False):
        given = dict(args.command_properties)
        unused = sorted(given.keys() - KEYS - {"bootstrap.servers", "client.id"})
        if unused:
            print(f"warning: without effect here: {', '.join(unused)}", file=sys.stderr)
        args.has_own_client = False  # it has been said
    return Servers(addresses(bootstrap_server(args)), security_of(args))


def connect(
    kind: Callable[[dict[str, Any]], Client],
    args: argparse.Namespace,
    client_id: str,
    settings: Mapping[str, Any] | None = None,
) -> Client:
    """Make a client and wait until a broker has answered it.

    `--command-property` overrides `settings`. Raises UserError within CONNECT_TIMEOUT_S, naming
    the addresses, and UsageError for a setting that the client does not know.
    """
    from confluent_kafka import KafkaException

    servers = bootstrap_server(args)
    _reach_one_of(Servers(addresses(servers), security_of(args)))
    chosen = {
        "bootstrap.servers": servers,
        "client.id": client_id,
        "log_level": 0,  # librdkafka's own log lines; what matters comes back as errors
        "logger": _silent(),  # those of fatal errors too
        "error_cb": warn_of_error,
        **(settings or {}),
        **security_of(args).librdkafka_here(),
        **_other_properties(args),
    }
    try:
        with deferred_interrupt():
            client = kind(chosen)
    except KafkaException as problem:
        raise UsageError(problem.args[0].str()) from None
    try:
        client.list_topics(timeout=CONNECT_TIMEOUT_S)
    except KafkaException as problem:
        raise UserError(
            f"no Kafka broker answered at {servers} within {CONNECT_TIMEOUT_S:g} s"
            f" ({explained(problem.args[0])}){_hint(servers, args)}"
        ) from None
    return client


def _silent() -> logging.Logger:
    """A logger that nobody hears."""
    logger = logging.getLogger("cluster.tools.librdkafka")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def _hint(servers: str, args: argparse.Namespace) -> str:
    """What is the matter with brokers that accept connections and do not answer; empty where it is
    not known.
    """
    from cluster.client.socket_client import SocketClient
    from cluster.client.topic_requests import cluster_facts

    try:
        reachable = Servers(addresses(servers), security_of(args))
        with SocketClient.connect(reachable, "milena-check", _HINT_TIMEOUT_S) as client:
            cluster_facts(client)
    except UserError as problem:
        if "timed out" in str(problem):  # as has been said
            return ""
        return f"; {_with_known_file(str(problem), args)}"
    return ""


def _with_known_file(problem: str, args: argparse.Namespace) -> str:
    """The text with the path of the data directory's own file, if there is one, for FILE."""
    path = data_dir(args).tools_properties
    file = shown(path) if path.exists() else "FILE"
    return problem.replace("--command-config FILE", f"--command-config {file}")


def explained(error: "KafkaError") -> str:
    """The text of an error without the prefixes that librdkafka adds; its name if it has none."""
    text: str = error.str()
    for wrapping in ("Unable to produce message: ", "Broker: ", "Local: "):
        text = text.replace(wrapping, "")
    return f"{text}{error.name()}" if text == "" or text.endswith(": ") else text


def warn_of_error(error: "KafkaError") -> None:
    """Warn when librdkafka, while polled, reports that no broker is left; ignore other errors."""
    from confluent_kafka import KafkaError

    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        print("warning: no broker answers; still trying", file=sys.stderr, flush=True)


def addresses(servers: str) -> list[tuple[str, int]]:
    """Host and port of each bootstrap server. Raises UsageError."""
    return [_address(server.strip()) for server in servers.split(",") if server.strip()]


def _address(server: str) -> tuple[str, int]:
    location = server.rpartition("://")[2]
    host, colon, port = location.rpartition(":")
    if not colon or location.endswith("]"):
        host, port = location, str(BROKER_PORT)
    if not host or not port.isdigit() or not 0 < int(port) <= 65_535:
        raise UsageError(f"--bootstrap-server takes host:port, not {server}")
    return host.strip("[]"), int(port)


def _reach_one_of(servers: Servers) -> None:
    """Check that one server accepts connections, and that client. Raises UserError.

    librdkafka itself would try again without reporting a refused connection or login.
    """
    places = servers.addresses
    if not places:
        raise UsageError("--bootstrap-server takes host:port, not an empty text")
    if servers.security != UNPROTECTED:
        from cluster.client.socket_client import SocketClient

        SocketClient.connect(servers, "milena-check", CONNECT_TIMEOUT_S / len(places)).close()
        return
    reasons = []
    for host, port in places:
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S / len(places)).close()
        except OSError as problem:
            reasons.append(f"{host}:{port} ({problem.strerror or problem})")
        else:
            return
    raise UserError(f"cannot connect to {', '.join(reasons)}")
