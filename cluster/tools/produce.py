"""`produce`: each line of the input becomes a record, with the flags of Kafka's own tool."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from cluster.model.errors import UserError
from cluster.runtime.installation import shown
from cluster.runtime.whole_numbers import at_least_one, not_negative
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import add_connection, connect, explained
from cluster.tools.line_reader import PROPERTIES, LineReader, ProducedRecord, UnreadableLine
from cluster.tools.missing_rights import right_hint
from cluster.tools.options import key_value
from cluster.tools.produce_transactions import LineTransactions
from cluster.tools.undelivered import reason_for_silence

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from cluster.tools.arguments import Subparsers

_POLL_S: Final = 0.1
_INTERRUPTED_PATIENCE_S: Final = 5.0
_PATIENCE_S: Final = 5.0
_TIMED_OUT_SHOWN: Final = 5
_DELIVERY_TIMEOUT_MS: Final = 60_000
"""Enough for the death of a partition's leader to be detected and another to be elected."""
_UNKNOWN_TOPIC_TIMEOUT_MS: Final = 10_000
"""Short, because a topic that brokers create automatically exists almost at once."""
_REQUEST_MAX_BYTES: Final = 1_048_576
"""The Java producer's default (`max.request.size`)."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `produce` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "produce",
        "produce orders",
        "produce --topic orders --file orders.txt --compression-codec zstd",
        "produce --topic orders --property parse.key=true --property key.separator=:",
        "produce --topic orders --transactional-id import-1 --file orders.txt",
    )
    parser.accept_words(name="--topic")
    parser.add_argument("--topic", metavar="T", required=True, help="where the records go")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="read lines from it (default: standard input)"
    )
    parser.add_argument(
        "--partition",
        type=not_negative,
        metavar="N",
        help="write to this partition (default: chosen by the key, any one without a key)",
    )
    parser.add_argument(
        "--property",
        "--reader-property",
        dest="properties",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help=f"how a line is read; may be repeated: {', '.join(PROPERTIES)}",
    )
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        default="none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        help="(gzip if none is named)",
    )
    parser.add_argument(
        "--request-required-acks",
        default="-1",
        choices=("0", "1", "-1", "all"),
        help="replicas that must have a record: none, the leader, all in sync (default: -1, all)",
    )
    parser.add_argument("--sync", action="store_true", help="send one record after the other")
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="send all lines in one transaction, which is aborted if a line fails",
    )
    parser.add_argument(
        "--transaction-size",
        type=at_least_one,
        metavar="N",
        help="with --transactional-id: commit after each N lines (typed ones: after each)",
    )
    add_connection(parser, "--producer-property")


def run(args: argparse.Namespace) -> int:
    """Send every line and report failed deliveries. Returns the exit status, 1 if any failed."""
    try:
        reader = LineReader.from_properties(args.properties)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    _check(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as files:
        source, is_typed = sys.stdin.buffer, args.file is None and sys.stdin.isatty()
        if args.file is not None:
            try:
                source = files.enter_context(args.file.open("rb"))
            except OSError as problem:
                raise UserError(f"cannot read {shown(args.file)}: {problem.strerror}") from None
        from confluent_kafka import Producer

        client = connect(Producer, args, "console-producer", _settings(args))

        def hint(code: int) -> str:
            return right_hint(code, args)

        transactions = None
        if args.transactional_id is not None:
            size = 1 if is_typed and args.transaction_size is None else args.transaction_size
            transactions = LineTransactions(client, args.transactional_id, size, hint)
            transactions.start()
        producer = ConsoleProducer(
            client,
            args.topic,
            args.partition,
            is_sync=args.sync or is_typed,
            why=lambda: reason_for_silence(args),
            transactions=transactions,
            hint=hint,
        )
        lines = _prompted(source) if is_typed and sys.stdout.isatty() else source
        try:
            producer.send_all(reader, lines)
            producer.finish()
        except KeyboardInterrupt:
            producer.give_up()
        producer.sum_up()
        return 1 if producer.failure_count else 0


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go together."""
    if args.transactional_id is None:
        if args.transaction_size is not None:
            raise UsageError("--transaction-size needs --transactional-id")
        return
    if not args.transactional_id:
        raise UsageError("--transactional-id cannot be empty")
    if _acks(args) not in ("-1", "all"):
        raise UsageError("--transactional-id needs acknowledgment by all replicas (-1)")


def _acks(args: argparse.Namespace) -> str:
    acks: str = dict(args.command_properties).get("acks", args.request_required_acks)
    return acks


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    acks = _acks(args)
    return {
        "acks": acks,
        # As Java's producer does by itself: retries neither repeat nor reorder records.
        "enable.idempotence": acks in ("-1", "all"),
        "partitioner": "murmur2_random",  # Java's, so that all clients agree on a key's partition
        "compression.type": args.compression_codec,
        "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
        "topic.metadata.propagation.max.ms": _UNKNOWN_TOPIC_TIMEOUT_MS,
        "message.max.bytes": _REQUEST_MAX_BYTES,
        "delivery.report.only.error": True,
        **({} if args.transactional_id is None else _transactional_settings(args)),
    }


def _transactional_settings(args: argparse.Namespace) -> dict[str, Any]:
    """A record may take no longer than its transaction."""
    given = dict(args.command_properties).get("transaction.timeout.ms", "")
    timeout_ms = int(given) if given.isdecimal() else _DELIVERY_TIMEOUT_MS
    return {
        "transactional.id": args.transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": min(timeout_ms, _DELIVERY_TIMEOUT_MS),
    }


def _prompted(source: BinaryIO) -> Iterator[bytes]:
    """The lines that the user types, each after a prompt `>`."""
    while True:
        print(">", end="", flush=True)
        line = source.readline()
        if not line:
            print()
            return
        yield line


class ConsoleProducer:
    """Sends lines, and prints one line on stderr for each that was not delivered.

    Once a record has timed out no other line is read, and after a few only their number is printed.
    """

    def __init__(
        self,
        client: "Producer",
        topic: str,
        partition: int | None = None,
        *,
        is_sync: bool,
        why: Callable[[], str] = lambda: "",
        transactions: LineTransactions | None = None,
        hint: Callable[[int], str] = lambda _code: "",
    ) -> None:
        """`is_sync`: the outcome of a record is known before the next one is read. `why` finds out
        what keeps brokers from taking records; `hint` says what to do about an error code.
        """
        self._hint = hint
        self._has_hinted = False
        self._client = client
        self._topic = topic
        self._place: dict[str, Any] = {} if partition is None else {"partition": partition}
        self._is_sync = is_sync
        self._transactions = transactions
        self.failure_count = 0
        self._is_over = False
        self._why = why
        self._timed_out_count = 0
        self._left = 0
        self._since_s = time.monotonic()
        self._has_warned = False

    def send_all(self, reader: LineReader, lines: Iterable[bytes]) -> None:
        """Send all lines, up to the first that cannot be parsed, as Kafka's tool does."""
        for number, line in enumerate(lines, 1):
            if self._timed_out_count or (self._transactions is not None and self.failure_count):
                self._complain(f"line {number} and those after it were not sent")
                return
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            try:
                record = reader.read(text, number)
            except UnreadableLine as problem:
                self._complain(str(problem))
                return
            if self._transactions is not None:
                self._transactions.add(number)
            self._send(record, number)
            if self._is_sync:
                self.wait()
            if self._transactions is not None and self._transactions.is_full:
                self.finish()

    def finish(self) -> None:
        """Wait for all records, then end the open transaction: by an abort if any has failed."""
        self.wait()
        transactions = self._transactions
        if transactions is None or not transactions.is_open:
            return
        if self.failure_count:
            self._complain(transactions.abort())
            return
        try:
            transactions.commit()
        except UserError as problem:
            self._complain(str(problem))

    def wait(self) -> None:
        """Wait until every record is delivered or has failed, by the client's delivery timeout."""
        while left := self._attend(lambda: self._client.flush(_POLL_S)):
            self._look_for_progress(left)

    def give_up(self) -> None:
        """Wait a few seconds for records in flight, then count the others as failed. An open
        transaction is aborted.
        """
        if self._transactions is not None:
            if self._transactions.is_open:
                self._complain(f"interrupted: {self._transactions.abort()}")
            return
        try:
            left = self._attend(lambda: self._client.flush(_INTERRUPTED_PATIENCE_S))
        except KeyboardInterrupt:
            left = len(self._client)
        if left:
            self._complain(f"interrupted before {left} records were delivered{self._reason()}")

    def sum_up(self) -> None:
        """Say how many records have timed out, and why, if any have."""
        if self._timed_out_count:
            seconds = _DELIVERY_TIMEOUT_MS // 1_000
            count = self._timed_out_count
            print(
                f"error: {count} line{'s' if count > 1 else ''} not delivered within"
                f" {seconds} s{self._reason()}",
                file=sys.stderr,
                flush=True,
            )

    def _reason(self) -> str:
        why = self._why()
        return f": {why}" if why else ""

    def _look_for_progress(self, left: int) -> None:
        """Say once, after some seconds in which nothing was delivered, what is the matter."""
        now_s = time.monotonic()
        if left != self._left:
            self._left, self._since_s = left, now_s
        elif now_s - self._since_s > _PATIENCE_S and not self._has_warned:
            self._has_warned = True
            print(
                f"warning: nothing was delivered for {_PATIENCE_S:g} s{self._reason()}; still"
                " trying",
                file=sys.stderr,
                flush=True,
            )

    def _send(self, record: ProducedRecord, number: int) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._client.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    headers=[*record.headers],
                    on_delivery=partial(self._on_delivery, number),
                    **self._place,
                )
            except BufferError:
                self._attend(lambda: self._client.poll(_POLL_S))  # the queue is full
                self._look_for_progress(len(self._client))
                continue
            except KafkaException as problem:
                self._on_delivery(number, problem.args[0], None)
            break
        self._attend(lambda: self._client.poll(0))

    def _attend(self, wait: Callable[[], int]) -> int:
        """What `wait` returns; 0 once the client has given up for good, which is said once."""
        from confluent_kafka import KafkaException

        try:
            return wait()
        except KafkaException as end:
            if not self._is_over:
                self._is_over = True
                self._complain(f"{explained(end.args[0])}{self._hint_once(end.args[0])}")
            return 0

    def _on_delivery(
        self, number: int, error: "KafkaError | None", _message: "Message | None"
    ) -> None:
        if error is None:
            return
        self._timed_out_count += error.name() == "_MSG_TIMED_OUT"
        if self._timed_out_count > _TIMED_OUT_SHOWN:
            self.failure_count += 1
        else:
            problem = f"{explained(error)}{self._hint_once(error)}"
            self._complain(f"line {number} was not delivered: {problem}")

    def _hint_once(self, error: "KafkaError") -> str:
        hint = "" if self._has_hinted else self._hint(error.code())
        self._has_hinted = self._has_hinted or bool(hint)
        return hint

    def _complain(self, what: str) -> None:
        self.failure_count += 1
        print(f"error: {what}", file=sys.stderr, flush=True)
