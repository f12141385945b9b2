"""`log-dirs`: what log directories hold, by topic or by replica; `--json` as kafka-log-dirs."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from cluster.client.cluster_requests import broker_addresses
from cluster.client.log_dir_requests import LogDirFacts, ReplicaFacts, describe_log_dirs
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.model.sizes import size_text
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import add_servers, servers_of
from cluster.tools.missing_rights import right_hint
from cluster.tools.terminal import print_table

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-log-dirs"
_VERSION: Final = 1
"""Of the object that Kafka's tool prints."""
_TOPIC_HEADINGS: Final = ("TOPIC", "REPLICAS", "SIZE", "MAX LAG", "")
_JAVA_NAMES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.kafka_storage_error: "org.apache.kafka.common.errors.KafkaStorageException",
}
"""Kafka's tool names the exception of its client."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `log-dirs` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "log-dirs",
        "log-dirs",
        "log-dirs --topic-list orders,audit",
        "log-dirs --describe",
        "log-dirs --describe --broker-list 0,1 --topic-list orders --json",
    )
    parser.accept_words(("describe",), is_optional=True)
    parser.add_argument(
        "--describe",
        "--verbose",
        action="store_true",
        help="each replica with its size in bytes and its lag, rather than a line for each topic",
    )
    parser.add_argument(
        "--broker-list",
        type=_numbers,
        metavar="N[,N...]",
        help="the brokers to ask (default: all that are live)",
    )
    parser.add_argument(
        "--topic-list",
        type=_names,
        default=(),
        metavar="T[,T...]",
        help="leave out the replicas of other topics",
    )
    add_servers(parser)
    parser.add_argument("--json", action="store_true", help="one object, in Kafka's form")


def run(args: argparse.Namespace) -> int:
    """Ask the brokers and print what they say. Returns the exit status."""
    try:
        found = _ask(servers_of(args), args.broker_list, args.topic_list)
    except Refused as refused:
        raise UserError(f"{refused}{right_hint(refused.code, args)}") from None
    if args.json:
        print(json.dumps(as_json(found), separators=(",", ":")))
    else:
        _print(found, is_verbose=args.describe)
    return 0


def _ask(
    servers: Servers,
    brokers: Sequence[int] | None,
    topics: Sequence[str],
) -> dict[int, list[LogDirFacts]]:
    """The log directories of each broker, by id. Raises Refused, UserError."""
    with SocketClient.connect(servers, _CLIENT_ID) as client:
        known = broker_addresses(client)
    asked = sorted(known) if brokers is None else brokers
    missing = [str(broker) for broker in asked if broker not in known]
    if missing:
        raise UserError(
            f"there is no live broker {', '.join(missing)}; there are:"
            f" {', '.join(map(str, sorted(known)))}"
        )
    found = {}
    for broker in asked:
        with SocketClient.connect(servers.only(known[broker]), _CLIENT_ID) as client:
            found[broker] = describe_log_dirs(client, topics)
    return found


def as_json(found: Mapping[int, Sequence[LogDirFacts]]) -> dict[str, Any]:
    """The object that Kafka's tool prints (`LogDirsCommand.formatAsJson`)."""
    return {
        "version": _VERSION,
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": f"{replica.topic}-{replica.partition}",
                                "size": replica.size_bytes,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for replica in directory.replicas
                        ],
                        "error": _error_of(directory),
                        "logDir": directory.path,
                    }
                    for directory in directories
                ],
            }
            for broker, directories in found.items()
        ],
    }


def _error_of(directory: LogDirFacts) -> str | None:
    if directory.error is ErrorCode.none:
        return None
    return _JAVA_NAMES.get(directory.error, directory.error.name)


def _print(found: Mapping[int, Sequence[LogDirFacts]], *, is_verbose: bool) -> None:
    for broker, directories in found.items():
        for directory in directories:
            print(f"Broker {broker}: {one_line(directory.path, None)}: {_summary(directory)}")
            if directory.replicas and not is_verbose:
                print_table(_TOPIC_HEADINGS, topic_rows(directory), right=_TOPIC_HEADINGS[1:4])
            elif directory.replicas:
                print_table(
                    ["PARTITION", "BYTES", "LAG", ""],
                    [
                        [
                            f"{replica.topic}-{replica.partition}",
                            str(replica.size_bytes),
                            str(replica.offset_lag),
                            "being moved here" if replica.is_future else "",
                        ]
                        for replica in directory.replicas
                    ],
                    right=["BYTES", "LAG"],
                )


def topic_rows(directory: LogDirFacts) -> list[tuple[str, ...]]:
    """A row for each topic of a log directory, the largest first."""
    by_topic: dict[str, list[ReplicaFacts]] = {}
    for replica in directory.replicas:
        by_topic.setdefault(replica.topic, []).append(replica)
    sizes = {name: sum(each.size_bytes for each in found) for name, found in by_topic.items()}
    rows: list[tuple[str, ...]] = []
    for name, found in sorted(by_topic.items(), key=lambda item: (-sizes[item[0]], item[0])):
        moving = sum(each.is_future for each in found)
        rows.append(
            (
                name,
                f"{len(found):,}",
                size_text(sizes[name]),
                f"{max(each.offset_lag for each in found):,}",
                f"{moving:,} being moved here" if moving else "",
            )
        )
    return rows


def _summary(directory: LogDirFacts) -> str:
    if directory.error is not ErrorCode.none:
        return f"failed ({directory.error.name.upper()})"
    size_bytes = sum(replica.size_bytes for replica in directory.replicas)
    count = len(directory.replicas)
    summary = f"{count:,} replica{'' if count == 1 else 's'}, {size_text(size_bytes)}"
    if directory.total_bytes >= 0:
        summary += (
            f"; {size_text(directory.usable_bytes)} of {size_text(directory.total_bytes)} free"
        )
    return summary


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in _names(text)))
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a list of broker ids: {text}") from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise UsageError("a list of names cannot be empty")
    return names
