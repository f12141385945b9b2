"""`load-test`: producers and consumers as processes, with the flags of kafka-producer-perf-test."""

import argparse
import json
import math
import signal
import sys
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final

from cluster.loadtest.record_stamp import KEY_DISTRIBUTIONS, STAMP_BYTES
from cluster.loadtest.send_schedule import UNLIMITED
from cluster.model.errors import UserError
from cluster.runtime.whole_numbers import at_least_one, integer, not_negative
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import add_connection, client_properties
from cluster.tools.options import key_value
from cluster.views.amounts import byte_rate

if TYPE_CHECKING:
    from cluster.loadtest.load_run import LoadPlan
    from cluster.tools.arguments import Subparsers
    from cluster.tools.load.topic import LoadTopic

DEFAULT_DURATION_S: Final = 10.0
DEFAULT_THROUGHPUT: Final = 10_000.0
_MESSAGE_TIMEOUT_MS: Final = 60_000
_TRANSACTION_MS: Final = 3_000
"""The default of kafka-producer-perf-test."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `load-test` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "load-test",
        "load-test",
        "load-test --topic orders --num-records 500000 --record-size 100 --throughput -1",
        "load-test --producers 2 --client-id loader-1 --client-id loader-2 --consumers 3",
        "load-test --group billing --consumers 3 --kill-consumer 5",
        "load-test --transactional --transaction-duration-ms 100 --producers 2",
        "load-test --scenario noisy-neighbour --quota 2MiB",
    )
    _add_load(parser)
    _add_clients(parser)
    _add_scenario(parser)
    parser.add_argument("--json", action="store_true", help="the result as one object, for scripts")
    add_connection(parser)


def _add_load(parser: argparse.ArgumentParser) -> None:
    load = parser.add_argument_group("load")
    load.add_argument("--topic", metavar="T", help="(default: a new one, deleted at the end)")
    load.add_argument(
        "--partitions", type=at_least_one, metavar="N", help="partitions of a new topic"
    )
    load.add_argument(
        "--replication-factor",
        type=at_least_one,
        metavar="N",
        help="replicas of each partition of a new topic",
    )
    load.add_argument(
        "--keep",
        "--keep-topic",
        dest="keep",
        action="store_true",
        help="keep the topic made for the test, with its records and the offsets of --group",
    )
    load.add_argument(
        "--num-records",
        type=at_least_one,
        metavar="N",
        help="records to send, of all producers together",
    )
    load.add_argument(
        "--duration",
        type=_seconds,
        metavar="SECONDS",
        help=f"(default: {DEFAULT_DURATION_S:g}, unless --num-records is given)",
    )
    load.add_argument(
        "--throughput",
        type=_rate,
        default=DEFAULT_THROUGHPUT,
        metavar="RECORDS/S",
        help=f"records/s of all producers together; -1: no limit (default: {DEFAULT_THROUGHPUT:g})",
    )
    load.add_argument(
        "--record-size",
        type=_record_size,
        default=1_000,
        metavar="BYTES",
        help=f"size of a record, at least {STAMP_BYTES} (default: 1000)",
    )
    load.add_argument(
        "--key-distribution",
        choices=KEY_DISTRIBUTIONS,
        default="none",
        help="none: partitions in turn; uniform, or a few keys much more often (default: none)",
    )
    load.add_argument(
        "--keys",
        type=at_least_one,
        default=1_000,
        metavar="N",
        help="number of different keys (default: 1000)",
    )


def _add_clients(parser: argparse.ArgumentParser) -> None:
    clients = parser.add_argument_group("clients")
    clients.add_argument(
        "--producers", type=at_least_one, default=1, metavar="N", help="(default: 1)"
    )
    clients.add_argument(
        "--consumers",
        type=not_negative,
        default=1,
        metavar="N",
        help="they share the partitions and check every record (default: 1)",
    )
    clients.add_argument(
        "--client-id",
        action="append",
        metavar="ID",
        help="client id of all producers; repeated: of each in turn (default: load-producer-N)",
    )
    clients.add_argument(
        "--consumer-client-id", action="append", metavar="ID", help="the same for consumers"
    )
    clients.add_argument(
        "--group",
        metavar="G",
        help="consumers join this group, commit every second, and share partitions as it assigns",
    )
    clients.add_argument(
        "--group-protocol", choices=("classic", "consumer"), help="of --group (default: classic)"
    )
    clients.add_argument(
        "--kill-consumer",
        type=_seconds,
        metavar="SECONDS",
        help="kill -9 the first consumer of --group after this time; records lost or repeated are"
        " counted",
    )
    clients.add_argument(
        "--transactional",
        action="store_true",
        help="send in transactions, each producer with its own transactional id; consumers read"
        " what is committed",
    )
    clients.add_argument(
        "--transactional-id",
        metavar="PREFIX",
        help="the same, with ids that begin like this (default: load-RUN)",
    )
    clients.add_argument(
        "--transaction-duration-ms",
        type=at_least_one,
        metavar="MS",
        help=f"the age at which a transaction is committed (default: {_TRANSACTION_MS})",
    )
    clients.add_argument(
        "--acks", default="all", choices=("0", "1", "-1", "all"), help="(default: all)"
    )
    clients.add_argument(
        "--compression-codec", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd")
    )
    for kind in ("producer", "consumer"):
        clients.add_argument(
            f"--{kind}-props",
            nargs="+",
            action="extend",
            type=key_value,
            default=[],
            metavar="KEY=VALUE",
            help=f"settings of {kind}s (librdkafka's names)",
        )
    parser.add_argument(
        "--reporting-interval",
        type=at_least_one,
        default=5_000,
        metavar="MS",
        help="between progress lines where output is not a terminal (default: 5000)",
    )


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    scenario = parser.add_argument_group("scenario")
    scenario.add_argument(
        "--scenario",
        choices=("noisy-neighbour",),
        help="two clients, a produce quota on one: does it hold, and is the other client"
        " unaffected?",
    )
    scenario.add_argument(
        "--quota",
        type=byte_rate,
        default=1_048_576.0,
        metavar="B",
        help="bytes/s per broker for the noisy client, such as 500KiB (default: 1MiB)",
    )
    scenario.add_argument(
        "--short", action="store_true", help="shorter phases: a smoke test, not a measurement"
    )


def run(args: argparse.Namespace) -> int:
    """Run the load test; Ctrl-C ends it early and prints the results so far."""
    _check(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    # Imported late, so that help and wrong usage do not load the client library.
    if args.scenario is not None:
        from cluster.tools.load.scenario import run_scenario

        return run_scenario(args, producer_properties(args))
    from cluster.loadtest.load_run import run_load
    from cluster.loadtest.result_text import result_json, result_text
    from cluster.tools.load.display import display
    from cluster.tools.load.topic import open_load_topic

    with open_load_topic(args, _note) as topic:
        plan = _plan(args, topic)
        with display(args.reporting_interval, is_silent=args.json) as progress:
            result = run_load(plan, topic.end_offsets, progress)
    print(json.dumps(result_json(result)) if args.json else result_text(result))
    return result.exit_status


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check(args: argparse.Namespace) -> None:
    for kind, count, names in (
        ("client-id", args.producers, args.client_id),
        ("consumer-client-id", args.consumers, args.consumer_client_id),
    ):
        if names and len(names) not in (1, count):
            raise UsageError(f"--{kind} is given {len(names)} times for {count} clients")
    if args.group is None:
        for option in ("group_protocol", "kill_consumer"):
            if getattr(args, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} goes with --group")
    elif not args.group:
        raise UsageError("--group needs a name")
    elif not args.consumers:
        raise UsageError("--group needs --consumers")
    _check_transactions(args)
    if args.kill_consumer is not None and args.consumers < 2:
        raise UsageError("--kill-consumer needs --consumers of 2 or more: the others go on reading")
    if args.scenario is not None and args.group is not None:
        raise UsageError("--group does not go with --scenario, which has no consumers")


def _is_transactional(args: argparse.Namespace) -> bool:
    return bool(args.transactional or args.transactional_id is not None)


def _check_transactions(args: argparse.Namespace) -> None:
    if not _is_transactional(args):
        if args.transaction_duration_ms is not None:
            raise UsageError("--transaction-duration-ms needs --transactional")
        return
    if args.transactional_id == "":
        raise UsageError("--transactional-id cannot be empty")
    for option in ("group", "scenario"):
        if getattr(args, option) is not None:
            raise UsageError(f"--transactional does not go with --{option}")
    if dict(args.producer_props).get("acks", args.acks) not in ("-1", "all"):
        raise UsageError("--transactional needs --acks all")


def _plan(args: argparse.Namespace, topic: "LoadTopic") -> "LoadPlan":
    from cluster.loadtest.load_run import LoadPlan
    from cluster.loadtest.worker_orders import ConsumerOrder, ProducerOrder

    if args.group is None and args.consumers > topic.partition_count:
        raise UserError(
            f"{args.consumers} consumers share the {topic.partition_count} partitions of"
            f" {topic.name}, and some would have none: use fewer, or --partitions {args.consumers}"
        )
    run = SystemRandom().getrandbits(32)
    duration_s = args.duration
    if duration_s is None and args.num_records is None:
        duration_s = DEFAULT_DURATION_S
    ids = args.transactional_id or f"load-{run:08x}"
    is_transactional = _is_transactional(args)
    producer_names = _names(args.client_id, "load-producer", args.producers)
    producers = [
        ProducerOrder(
            client_id=name,
            bootstrap=topic.bootstrap,
            topic=topic.name,
            partitions=topic.partition_count,
            run=run,
            index=index,
            of=args.producers,
            records_per_s=args.throughput,
            record_count=args.num_records,
            duration_us=None if duration_s is None else int(duration_s * 1e6),
            record_bytes=args.record_size,
            key_distribution=args.key_distribution,
            key_count=args.keys,
            transactional_id=f"{ids}-{index}" if is_transactional else None,
            transaction_us=1_000 * (args.transaction_duration_ms or _TRANSACTION_MS),
            properties=producer_properties(args),
        )
        for index, name in enumerate(producer_names)
    ]
    starts = sorted(topic.end_offsets().items()) if args.consumers else []
    if args.group is not None:
        topic.begin_group(args.group, client_properties(args))
    consumers = [
        ConsumerOrder(
            client_id=name,
            bootstrap=topic.bootstrap,
            topic=topic.name,
            run=run,
            start_offsets={} if args.group else dict(starts[index :: args.consumers]),
            group=args.group,
            group_protocol=args.group_protocol or "classic",
            is_transactional=is_transactional,
            properties={**client_properties(args), **dict(args.consumer_props)},
        )
        for index, name in enumerate(
            _names(args.consumer_client_id, "load-consumer", args.consumers)
        )
    ]
    if args.group is None:
        return LoadPlan(topic.name, producers, consumers)
    return LoadPlan(
        topic.name,
        producers,
        consumers,
        None if args.kill_consumer is None else int(args.kill_consumer * 1e6),
        lambda: topic.group_lag(args.group),
    )


def producer_properties(args: argparse.Namespace) -> dict[str, Any]:
    """Settings of the producers; `--command-property` overrides the others."""
    given = {**client_properties(args), **dict(args.producer_props)}
    acks = given.get("acks", args.acks)
    return {
        "acks": acks,
        # As Java's producer does by default: retries neither repeat nor reorder records.
        "enable.idempotence": acks in ("-1", "all"),
        "compression.type": args.compression_codec,
        "message.timeout.ms": _MESSAGE_TIMEOUT_MS,
        "linger.ms": 5,
        "queue.buffering.max.kbytes": 32_768,  # Java's `buffer.memory`
        **given,
    }


def _names(given: list[str] | None, default: str, count: int) -> list[str]:
    if not given:
        return [f"{default}-{number}" for number in range(1, count + 1)]
    return given * count if len(given) == 1 else given


def _seconds(text: str) -> float:
    return _above_zero(text, text.removesuffix("s"))


def _rate(text: str) -> float:
    return UNLIMITED if text == "-1" else _above_zero(text, text)


def _above_zero(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text}") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _record_size(text: str) -> int:
    size = integer(text)
    if size < STAMP_BYTES:
        raise argparse.ArgumentTypeError(
            f"must be {STAMP_BYTES} or more: a record carries who sent it and when"
        )
    return size
