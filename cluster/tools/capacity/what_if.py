"""`capacity what-if`: the history with other brokers, traffic, retention or quotas."""

import argparse
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from cluster.model.finite_json import json_text
from cluster.tools.arguments import UsageError, add_parser_of, duration
from cluster.tools.capacity.subcommands import (
    CAPACITY_COMMANDS,
    add_history_options,
    chosen_history,
)
from cluster.tools.options import at_least_one
from cluster.tools.quotas.options import AMOUNTS
from cluster.tools.quotas.what_if import Supposed, supposed
from cluster.tools.rollup_windows import windows_place

if TYPE_CHECKING:
    from cluster.analytics.capacity.scenario import Scenario
    from cluster.tools.arguments import Subparsers

_BROKERS: Final = re.compile(r"[+-]?\d{1,4}")
_BROKERS_MAX: Final = 1000
_GROWTH_MAX: Final = 1000.0
"""A thousandfold, in percent over hundred."""
_TOP: Final = 20


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `capacity what-if` and its options to `subparsers`."""
    parser = add_parser_of(
        subparsers,
        CAPACITY_COMMANDS["what-if"],
        "capacity what-if --growth 30%",
        "capacity what-if --brokers +1 --retention 3d --retention orders=7d",
        "capacity what-if --quota producer_byte_rate=2MB --explain",
    )
    parser.add_argument(
        "--brokers",
        type=_brokers,
        metavar="+1",
        help="so many brokers more (+1), fewer (-1), or in all (4)",
    )
    parser.add_argument(
        "--growth",
        type=_growth,
        metavar="PERCENT",
        help="so much more traffic of clients: 30%%, or less: -20%%",
    )
    parser.add_argument(
        "--retention",
        type=_retention,
        action="append",
        default=[],
        metavar="[TOPIC=]3d",
        help="records are kept for so long, of all topics or of one; may be repeated",
    )
    parser.add_argument(
        "--quota",
        dest="quotas",
        type=supposed,
        action="append",
        default=[],
        metavar="KEY=AMOUNT",
        help="a limit for each client id on each broker; may be repeated",
    )
    parser.add_argument(
        "--top", type=at_least_one, metavar="N", help=f"clients shown (default: {_TOP})"
    )
    add_history_options(parser)
    parser.epilog = f"{parser.epilog}\n\n{AMOUNTS}"


def run(args: argparse.Namespace) -> int:
    """Print what would have happened. Returns the exit status."""
    if args.json and (args.explain or args.top is not None):
        raise UsageError("--explain and --top are for the text: --json has everything")
    _check(args)
    history = chosen_history(args, quotas=[each.kind.value for each in args.quotas])

    from cluster.analytics.capacity.what_if import what_if
    from cluster.tools.capacity.what_if_text import what_if_text

    found = what_if(history, _scenario(args))
    if args.json:
        print(json_text(found.as_json(), indent=2))
    else:
        source = windows_place(args)
        print("\n".join(what_if_text(found, source, args.top or _TOP, explain=args.explain)))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError."""
    quotas: Sequence[Supposed] = args.quotas
    if args.brokers is None and args.growth is None and not args.retention and not quotas:
        raise UsageError("suppose something: --brokers, --growth, --retention or --quota")
    if len({each.kind for each in quotas}) < len(quotas):
        raise UsageError("--quota: suppose one limit of each key")
    topics = [topic for topic, _ in args.retention]
    if len(set(topics)) < len(topics):
        raise UsageError("--retention: suppose one time for each topic, and one for all others")


def _scenario(args: argparse.Namespace) -> "Scenario":
    from cluster.analytics.capacity.scenario import Scenario

    retention: dict[str | None, timedelta] = dict(args.retention)
    of_all = retention.pop(None, None)
    return Scenario(
        args.brokers,
        args.growth or 0.0,
        None if of_all is None else of_all.total_seconds(),
        {topic: each.total_seconds() for topic, each in retention.items() if topic is not None},
        {each.kind.value: each.limit for each in args.quotas},
    )


def _brokers(text: str) -> str:
    text = text.strip()
    if not _BROKERS.fullmatch(text) or not 0 < abs(int(text)) <= _BROKERS_MAX:
        raise argparse.ArgumentTypeError(
            f"must be like +1, -1 or 4, at most {_BROKERS_MAX:,}, not {text}"
        )
    return text


def _growth(text: str) -> float:
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a percentage such as 30%, not {text}") from None
    if not -100 < percent <= 100 * _GROWTH_MAX:  # also NaN
        raise argparse.ArgumentTypeError(
            f"must be more than -100% and at most {100 * _GROWTH_MAX:,.0f}%, not {text}"
        )
    return percent / 100


def _retention(text: str) -> tuple[str | None, timedelta]:
    topic, has_topic, time = text.rpartition("=")
    if has_topic and not topic:
        raise argparse.ArgumentTypeError(f"must be like 3d or orders=3d, not {text}")
    return (topic or None, duration(time))
