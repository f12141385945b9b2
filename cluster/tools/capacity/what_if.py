"""`capacity what-if`: the history with other brokers, traffic, retention or quotas."""

import argparse
from typing import TYPE_CHECKING, Final

from cluster.analytics.capacity.scenario import ImpossibleScenario
from cluster.analytics.capacity.supposed import brokers, growth, retention, scenario_of
from cluster.model.finite_json import json_text
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import UsageError, add_parser_of
from cluster.tools.capacity.subcommands import (
    CAPACITY_COMMANDS,
    add_history_options,
    chosen_history,
)
from cluster.tools.rollup_windows import windows_place
from cluster.views.amounts import AMOUNTS
from cluster.views.supposed_limits import supposed

if TYPE_CHECKING:
    from cluster.analytics.capacity.scenario import Scenario
    from cluster.tools.arguments import Subparsers

_TOP: Final = 20


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `capacity what-if` and its options to `subparsers`."""
    parser = add_parser_of(
        subparsers,
        CAPACITY_COMMANDS["what-if"],
        "capacity what-if --growth 30%",
        "capacity what-if --brokers +1 --retention 3d --retention orders=7d",
        "capacity what-if --quota producer_byte_rate=2MiB --explain",
    )
    parser.add_argument(
        "--brokers",
        type=brokers,
        metavar="+1",
        help="so many brokers more (+1), fewer (-1), or in all (4)",
    )
    parser.add_argument(
        "--growth",
        type=growth,
        metavar="PERCENT",
        help="so much more traffic of clients: 30%%, or less: -20%%",
    )
    parser.add_argument(
        "--retention",
        type=retention,
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
    """Print the result of the scenario. Returns the exit status."""
    if args.json and (args.explain or args.top is not None):
        raise UsageError("--explain and --top are for the text: --json has everything")
    scenario = _scenario(args)
    history = chosen_history(args, quotas=list(scenario.quotas))

    from cluster.analytics.capacity.what_if import what_if
    from cluster.tools.capacity.what_if_text import what_if_text

    found = what_if(history, scenario)
    if args.json:
        print(json_text(found.as_json(), indent=2))
    else:
        source = windows_place(args)
        print("\n".join(what_if_text(found, source, args.top or _TOP, explain=args.explain)))
    return 0


def _scenario(args: argparse.Namespace) -> "Scenario":
    """Raises UsageError."""
    try:
        return scenario_of(args.brokers, args.growth, args.retention, args.quotas)
    except ImpossibleScenario as problem:
        option = "" if problem.field is None else f"--{problem.field}: "
        raise UsageError(f"{option}{problem}") from None
