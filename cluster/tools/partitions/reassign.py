"""`partitions reassign`: kafka-reassign-partitions' options, files and output."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.client.admin import Admin
from cluster.runtime.whole_numbers import integer, not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.partitions.assignment_file import read_assignment, read_topics
from cluster.tools.partitions.generate import generate
from cluster.tools.partitions.reassignment import Terms, cancel, execute, print_ongoing, verify
from cluster.tools.partitions.subcommands import CLIENT_ID, add_subcommand

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_TIMEOUT_MS: Final = 10_000
_NEEDED: Final = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
_TAKEN: Final = {
    "generate": ("disable_rack_aware",),
    "execute": (
        "throttle",
        "replica_alter_log_dirs_throttle",
        "additional",
        "timeout",
        "disallow_replication_factor_change",
    ),
    "verify": ("preserve_throttles",),
    "cancel": ("preserve_throttles", "timeout"),
    "list": (),
}
"""Options by the actions that use them; with another action they are wrong usage."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add `reassign` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "reassign",
        "partitions reassign --generate --topics-to-move-json-file topics.json --broker-list 0,1,2",
        "partitions reassign --execute --reassignment-json-file plan.json --throttle 50000000",
        "partitions reassign --verify --reassignment-json-file plan.json",
        "partitions reassign --list",
    )
    actions = parser.add_mutually_exclusive_group(required=True)
    for name, what in (
        ("generate", "print where topics are, and a proposal; nothing moves"),
        ("execute", "move partitions to the replicas of a file"),
        ("verify", "print how far that is, and remove throttles when it is complete"),
        ("cancel", "return the partitions of a file that are being moved to their old replicas"),
        ("list", "print which partitions are being moved"),
    ):
        actions.add_argument(
            f"--{name}", dest="action", action="store_const", const=name, help=what
        )
    parser.add_argument(
        "--reassignment-json-file",
        type=Path,
        metavar="FILE",
        help='{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2],'
        ' "log_dirs": ["any", "/disk2/broker-2"]}]}; log_dirs may be left out',
    )
    parser.add_argument(
        "--topics-to-move-json-file",
        type=Path,
        metavar="FILE",
        help='{"version": 1, "topics": [{"topic": "orders"}]}',
    )
    parser.add_argument(
        "--broker-list", type=_brokers, metavar="N[,N...]", help="the brokers to place topics on"
    )
    parser.add_argument(
        "--disable-rack-aware", action="store_true", help="propose replicas without regard to racks"
    )
    parser.add_argument(
        "--throttle",
        type=integer,
        metavar="BYTES",
        help="the most that each broker copies per second for these partitions",
    )
    parser.add_argument(
        "--replica-alter-log-dirs-throttle",
        type=integer,
        metavar="BYTES",
        help="the same between the log directories of a broker",
    )
    parser.add_argument(
        "--additional",
        action="store_true",
        help="also while other partitions are being moved; changes the throttle of these as well",
    )
    parser.add_argument(
        "--disallow-replication-factor-change",
        action="store_true",
        help="refuse partitions that would get more or fewer replicas",
    )
    parser.add_argument(
        "--preserve-throttles", action="store_true", help="leave the throttles as they are"
    )
    parser.add_argument(
        "--timeout",
        type=not_negative,
        metavar="MS",
        help=f"how long to wait until moves between log directories begin (default: {_TIMEOUT_MS})",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the action. Returns the exit status; raises UserError and Refused."""
    _check(args)
    act = _ACTIONS[args.action](args)
    with admin_of(args, CLIENT_ID) as admin:
        act(admin)
    return 0


Act = Callable[[Admin], None]
"""What is done when the files are read and a broker is connected."""


def _generate(args: argparse.Namespace) -> Act:
    return partial(
        generate,
        topics=read_topics(args.topics_to_move_json_file),
        brokers=args.broker_list,
        is_rack_aware=not args.disable_rack_aware,
    )


def _execute(args: argparse.Namespace) -> Act:
    terms = Terms(
        is_additional=args.additional,
        throttle_bytes=_limit(args.throttle),
        log_dir_throttle_bytes=_limit(args.replica_alter_log_dirs_throttle),
        may_change_factor=not args.disallow_replication_factor_change,
        timeout_ms=_timeout_ms(args),
    )
    return partial(execute, wanted=read_assignment(args.reassignment_json_file), terms=terms)


def _verify(args: argparse.Namespace) -> Act:
    wanted = read_assignment(args.reassignment_json_file)
    return partial(verify, wanted=wanted, keeps_throttles=args.preserve_throttles)


def _cancel(args: argparse.Namespace) -> Act:
    return partial(
        cancel,
        wanted=read_assignment(args.reassignment_json_file),
        keeps_throttles=args.preserve_throttles,
        timeout_ms=_timeout_ms(args),
    )


def _list(_args: argparse.Namespace) -> Act:
    return print_ongoing


_ACTIONS: Final[dict[str, Callable[[argparse.Namespace], Act]]] = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _list,
}


def _limit(bytes_per_second: int | None) -> int | None:
    """Negative numbers mean no limit, as to Kafka's tool."""
    return None if bytes_per_second is None or bytes_per_second < 0 else bytes_per_second


def _timeout_ms(args: argparse.Namespace) -> int:
    return _TIMEOUT_MS if args.timeout is None else int(args.timeout)


def _check(args: argparse.Namespace) -> None:
    """Check that the options fit the action. Raises UsageError."""
    needed = _NEEDED[args.action]
    for option in needed:
        if getattr(args, option) is None:
            raise UsageError(f"--{args.action} needs --{_spelled(option)}")
    used = {*needed, *_TAKEN[args.action]}
    for option in sorted({each for row in (*_NEEDED.values(), *_TAKEN.values()) for each in row}):
        value = getattr(args, option)
        if value is not None and value is not False and option not in used:
            raise UsageError(f"--{_spelled(option)} does not go with --{args.action}")


def _brokers(text: str) -> tuple[int, ...]:
    brokers = tuple(not_negative(part.strip()) for part in text.split(","))
    if len(set(brokers)) < len(brokers):
        raise argparse.ArgumentTypeError(f"names a broker twice: {text}")
    return brokers


def _spelled(option: str) -> str:
    return option.replace("_", "-")
