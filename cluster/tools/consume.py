"""`consume`: prints the records of topics, with the flags of Kafka's console consumer.

With `--group` it is a member of that consumer group, which commits what it has printed. Without, it
assigns itself partitions and commits nothing; partitions added later are not read.
"""

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from cluster.client.missing_offsets import assign_again, lacks_offsets
from cluster.client.timeouts import CONNECT_TIMEOUT_S
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.model.topics import INTERNAL_TOPICS
from cluster.runtime.installation import launcher
from cluster.runtime.whole_numbers import at_least_one, not_negative
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import (
    add_connection,
    connect,
    explained,
)
from cluster.tools.missing_rights import right_hint
from cluster.tools.options import key_value
from cluster.tools.record_printer import PROPERTIES, ConsumedRecord, Headers, RecordPrinter
from cluster.tools.terminal import readable

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

    from cluster.tools.arguments import Subparsers

_POLL_S: Final = 0.2
_FETCH_WAIT_MAX_MS: Final = 100
"""Short, because a fetch sent before a partition's offset was known delays that partition."""
_EARLIEST: Final = ("earliest", "smallest", "beginning")


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `consume` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "consume",
        "consume orders --from-beginning",
        "consume --topic orders --partition 0 --offset 42 --max-messages 10",
        "consume --include 'orders.*' --group audit",
        "consume --topic orders --property print.key=true --property print.timestamp=true",
    )
    parser.description = (
        f"{parser.description}\n\nOn a terminal the control characters of records are spelled out"
        " (\\x1b), tabs and ends of\nlines excepted, and bytes that are not UTF-8 (\\xff)."
        " A pipe or a file gets the bytes as they are."
    )
    parser.accept_words(name="--topic")
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", metavar="T", help="whose records to print")
    topics.add_argument(
        "--include", metavar="REGEX", help="instead of --topic: all topics whose whole name matches"
    )
    parser.add_argument(
        "--group",
        metavar="G",
        help="share the partitions with the other members of this group, go on where it was, and"
        " commit what was printed",
    )
    parser.add_argument("--partition", type=not_negative, metavar="N", help="only this one")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--offset",
        type=_offset,
        metavar="earliest|latest|N",
        help="where to start (default: latest)",
    )
    start.add_argument("--from-beginning", action="store_true", help="short for --offset earliest")
    parser.add_argument("--max-messages", type=at_least_one, metavar="N", help="stop after so many")
    parser.add_argument(
        "--timeout-ms", type=not_negative, metavar="N", help="stop when no record comes for so long"
    )
    parser.add_argument(
        "--property",
        "--formatter-property",
        dest="properties",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help=f"what to print of a record; may be repeated: {', '.join(PROPERTIES)}",
    )
    parser.add_argument(
        "--isolation-level",
        default="read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
        help="read_committed leaves out records of transactions that are open or aborted"
        " (default: %(default)s)",
    )
    add_connection(parser, "--consumer-property")


def run(args: argparse.Namespace) -> int:
    """Print records until a limit is reached or Ctrl-C, then their number. Returns 0."""
    try:
        printer = RecordPrinter.from_properties(args.properties)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    _check(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from confluent_kafka import Consumer

    settings = {
        "group.id": args.group or "console-consumer",  # demanded by the client
        "enable.auto.commit": args.group is not None,
        "auto.offset.reset": "earliest" if args.from_beginning else "latest",
        "isolation.level": args.isolation_level,
        "fetch.wait.max.ms": _FETCH_WAIT_MAX_MS,
    }
    if args.include is not None:
        settings["topic.blacklist"] = ",".join(f"^{name}$" for name in sorted(INTERNAL_TOPICS))
    client = connect(Consumer, args, "console-consumer", settings)
    topics = topics_of(client, args)
    assignment = [] if args.group else assignment_of(topics, args)
    consumer = ConsoleConsumer(
        client,
        printer,
        sys.stdout.buffer,
        is_terminal=sys.stdout.isatty(),
        is_member=args.group is not None,
        hint=lambda code: right_hint(code, args),
    )
    try:
        if args.group:
            subscribe(client, args)
        else:
            client.assign(assignment)
        consumer.print_records(args.max_messages, args.timeout_ms)
    except KeyboardInterrupt:
        pass
    finally:
        print(f"Processed a total of {consumer.count} messages", file=sys.stderr)
        client.close()
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go together."""
    is_placed = args.partition is not None or args.offset is not None
    if args.group is not None and is_placed:
        raise UsageError("--group does not go with --partition or --offset")
    if args.group == "":
        raise UsageError("--group needs a name")
    if args.include is not None:
        if is_placed:
            raise UsageError("--include does not go with --partition or --offset")
        try:
            re.compile(args.include)
        except re.error as problem:
            raise UsageError(
                f"--include {args.include} is not a regular expression: {problem}"
            ) from None


def topics_of(client: "Consumer", args: argparse.Namespace) -> dict[str, list[int]]:
    """The partitions of the chosen topics that exist. Raises UserError where none does."""
    from confluent_kafka import KafkaError

    if args.include is not None:
        topics = client.list_topics(timeout=CONNECT_TIMEOUT_S).topics
        found = {
            name: sorted(topic.partitions)
            for name, topic in sorted(topics.items())
            if re.fullmatch(args.include, name)
            and topic.error is None
            and name not in INTERNAL_TOPICS
        }
        if not found and args.group is None:
            raise UserError(f"no topic has a name that matches {one_line(args.include)}")
        return found
    topic = client.list_topics(args.topic, timeout=CONNECT_TIMEOUT_S).topics[args.topic]
    if topic.error is not None:
        if topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            hint = right_hint(topic.error.code(), args)
            raise UserError(f"cannot read topic {args.topic}: {explained(topic.error)}{hint}")
        raise UserError(
            f"there is no topic {args.topic}:"
            f" create it with `{launcher()} topics create {args.topic}`"
        )
    return {args.topic: sorted(topic.partitions)}


def assignment_of(topics: dict[str, list[int]], args: argparse.Namespace) -> "list[TopicPartition]":
    """The partitions to read, and the offset to begin at in each.

    Raises UserError for a partition that does not exist.
    """
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    if args.partition is not None:
        partitions = topics[args.topic]
        if args.partition not in partitions:
            raise UserError(
                f"topic {args.topic} has no partition {args.partition}:"
                f" it has {len(partitions)}, from 0"
            )
        topics = {args.topic: [args.partition]}
    offset = args.offset
    if offset is None:
        reset = dict(args.command_properties).get("auto.offset.reset")
        offset = "earliest" if args.from_beginning or reset in _EARLIEST else "latest"
    number = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(offset, offset)
    return [
        TopicPartition(name, partition, number)
        for name, partitions in topics.items()
        for partition in partitions
    ]


def subscribe(client: "Consumer", args: argparse.Namespace) -> None:
    """Become a member of the group. Raises UsageError for a pattern that librdkafka cannot read."""
    from confluent_kafka import KafkaException

    try:
        # A pattern of librdkafka begins with ^; it goes on finding topics that are made later.
        client.subscribe([args.topic or f"^({args.include})$"])
    except KafkaException as refusal:
        if args.include is None:
            error = refusal.args[0]
            raise UserError(f"{explained(error)}{right_hint(error.code(), args)}") from None
        raise UsageError(
            f"--include {args.include} cannot be used with --group: librdkafka, which looks for"
            " the topics then, does not know such expressions"
        ) from None


class ConsoleConsumer:
    """Copies records from an assigned client to an output, and counts them."""

    def __init__(
        self,
        client: "Consumer",
        printer: RecordPrinter,
        output: BinaryIO,
        *,
        is_terminal: bool = False,
        is_member: bool = False,
        hint: Callable[[int], str] = lambda _code: "",
    ) -> None:
        """`is_terminal`: escape control characters; other outputs get the bytes unchanged.

        `is_member`: of a group, rather than with an assignment of its own.
        `hint` says what to do about an error code, if that is known.
        """
        self._client = client
        self._hint = hint
        self._printer = printer
        self._output = output
        self._is_terminal = is_terminal
        self._is_member = is_member
        self.count = 0

    def print_records(self, max_messages: int | None, timeout_ms: int | None) -> None:
        """Print until there were `max_messages`, or none arrived for `timeout_ms`.

        None means no limit. Raises UserError for an error from which the client cannot recover.
        """
        patience_s = float("inf") if timeout_ms is None else timeout_ms / 1000
        last_s = time.monotonic()
        while max_messages is None or self.count < max_messages:
            left_s = last_s + patience_s - time.monotonic()
            message = self._client.poll(max(0.0, min(left_s, _POLL_S)))
            if message is None:
                if left_s <= 0:
                    return
                continue
            error = message.error()
            if error is None:
                self._print(message)
                last_s = time.monotonic()
            elif self._is_member and lacks_offsets(error):
                assign_again(self._client)
            elif not _may_pass(error, is_member=self._is_member):
                raise UserError(f"{explained(error)}{self._hint(error.code())}")

    def _print(self, message: "Message") -> None:
        kind, timestamp_ms = message.timestamp()
        record = ConsumedRecord(
            partition=cast(int, message.partition()),
            offset=cast(int, message.offset()),
            timestamp_type=kind,
            timestamp_ms=timestamp_ms,
            key=message.key(),
            value=message.value(),
            headers=cast(Headers, message.headers() or ()),
        )
        line = self._printer.line(record)
        self._output.write(readable(line) if self._is_terminal else line)
        self._output.flush()
        self.count += 1


def _may_pass(error: "KafkaError", *, is_member: bool) -> bool:
    """Whether the client recovers by itself, e.g. when a broker is down or a leader changes.

    librdkafka looks for a group's coordinator without being a member; that this is not allowed
    changes nothing then.
    """
    from confluent_kafka import KafkaError

    passing = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._PARTITION_EOF)
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return not is_member
    return error.code() in passing or error.retriable()


def _offset(text: str) -> int | str:
    if text in ("earliest", "latest"):
        return text
    if text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"must be earliest, latest or a number from 0, not {text}")
