"""How commands connect to brokers: addresses, timeouts, and one line of error text.

Imports confluent-kafka only when a client is made, so that help and wrong usage stay fast.
"""

import argparse
import socket
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from cluster.model.errors import UserError
from cluster.runtime.interrupts import deferred_interrupt
from cluster.tools.arguments import UsageError, bootstrap_server
from cluster.tools.options import WeakerProperties, key_value

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient, ClusterMetadata

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 30.0
"""Longer than it takes to replace a dead controller: its session timeout, 18 s by default."""

_DEFAULT_PORT: Final = 9092
POLL_S: Final = 0.1


class KafkaClient(Protocol):
    """What AdminClient, Producer and Consumer have in common."""

    def list_topics(self, topic: str | None = ..., timeout: float = ...) -> "ClusterMetadata":
        """The cluster's brokers, and its topics or one of them."""


Client = TypeVar("Client", bound=KafkaClient)
Answer = TypeVar("Answer")


def add_connection(parser: argparse.ArgumentParser, *property_options: str) -> None:
    """Add `--bootstrap-server`, and `--command-property` for settings of the client.

    `property_options` are other names for the latter in Kafka's tools, e.g. `--producer-property`.
    """
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="another cluster's brokers, separated by commas (default: the one of --data-dir)",
    )
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
        help="a properties file with such settings, weaker than those given singly",
    )


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
    _reach_one_of(servers)
    chosen = {
        "bootstrap.servers": servers,
        "client.id": client_id,
        "log_level": 0,  # librdkafka's own log lines; what matters comes back as errors
        "error_cb": warn_of_error,
        **(settings or {}),
        **dict(args.command_properties),
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
            f" ({explained(problem.args[0])})"
        ) from None
    return client


def explained(error: "KafkaError") -> str:
    """The text of an error without the prefixes that librdkafka adds; its name if it has none."""
    text: str = error.str()
    for wrapping in ("Unable to produce message: ", "Broker: ", "Local: "):
        text = text.replace(wrapping, "")
    return f"{text}{error.name()}" if text == "" or text.endswith(": ") else text


def answer_of_controller(
    client: "AdminClient", ask: Callable[[], Mapping[Any, Future[Answer]]]
) -> Answer:
    """The answer to a request about one resource, repeated while the controller changes.

    Raises KafkaException with the refusal, or when REQUEST_TIMEOUT_S have passed.
    """
    from confluent_kafka import KafkaError, KafkaException

    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        try:
            (future,) = ask().values()
            return future.result()
        except KafkaException as refusal:
            moved = refusal.args[0].code() == KafkaError.NOT_CONTROLLER
            if not moved or time.monotonic() > deadline:
                raise
        time.sleep(POLL_S)
        client.list_topics(timeout=REQUEST_TIMEOUT_S)  # lets the client find the new controller


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
        host, port = location, str(_DEFAULT_PORT)
    if not host or not port.isdigit() or not 0 < int(port) <= 65_535:
        raise UsageError(f"--bootstrap-server takes host:port, not {server}")
    return host.strip("[]"), int(port)


def _reach_one_of(servers: str) -> None:
    """Check that one server accepts connections. Raises UserError.

    librdkafka itself would try again without reporting a refused connection.
    """
    places = addresses(servers)
    if not places:
        raise UsageError("--bootstrap-server takes host:port, not an empty text")
    reasons = []
    for host, port in places:
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S / len(places)).close()
        except OSError as problem:
            reasons.append(f"{host}:{port} ({problem.strerror or problem})")
        else:
            return
    raise UserError(f"cannot connect to {', '.join(reasons)}")
