"""`partitions balance`: spreads leaders, replicas and bytes evenly over the live brokers."""

import argparse
import sys
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from cluster.balancing.carrying_out import Outcome, Progress, carry_out
from cluster.balancing.plan import TOLERANCE, Plan, plan_even
from cluster.balancing.replica_layout import Layout
from cluster.balancing.survey import Survey, survey
from cluster.client.admin import Admin
from cluster.client.topic_requests import Place
from cluster.model.errors import UserError
from cluster.model.ids import BrokerId
from cluster.runtime.whole_numbers import at_least_one, not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import admin_of
from cluster.tools.partitions.assignment_file import assignment_text, listed, still_throttled
from cluster.tools.partitions.balance_text import (
    HEADINGS,
    RIGHT,
    counted,
    failure_lines,
    few,
    load_rows,
    move_lines,
    progress_line,
    summary,
)
from cluster.tools.partitions.subcommands import CLIENT_ID, add_subcommand
from cluster.tools.terminal import print_table

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_AT_ONCE: Final = 50
_REPORT_S: Final = 1.0


def add_parser(subparsers: "Subparsers") -> None:
    """Add `balance` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "balance",
        "partitions balance",
        "partitions balance --execute --throttle 50000000",
        "partitions balance --execute --without 3",
    )
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--dry-run", action="store_true", help="only print what would change (the default)"
    )
    actions.add_argument(
        "--execute", action="store_true", help="move the partitions; returns when they have moved"
    )
    parser.add_argument(
        "--without",
        type=_brokers,
        default=(),
        metavar="N[,N...]",
        help="leave nothing on these brokers, live or dead",
    )
    parser.add_argument(
        "--tolerance",
        type=not_negative,
        default=round(TOLERANCE * 100),
        metavar="PERCENT",
        help="how far the bytes of a broker may be from the mean (default: %(default)s); leaders"
        " and replicas are spread as evenly as racks allow",
    )
    parser.add_argument(
        "--throttle",
        type=at_least_one,
        metavar="BYTES",
        help="the most that each broker copies per second; removed at the end",
    )
    parser.add_argument(
        "--at-once",
        type=at_least_one,
        default=_AT_ONCE,
        metavar="N",
        help="how many partitions are copied at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the plan as a file for `partitions reassign`, and change nothing",
    )


def run(args: argparse.Namespace) -> int:
    """Plan, print the plan, and carry it out if asked. Raises UserError and Refused."""
    if args.json and args.execute:
        raise UsageError("--json does not go with --execute: it changes nothing")
    with admin_of(args, CLIENT_ID) as admin:
        found = survey(admin)
        plan = planned(found, args.without, args.tolerance / 100)
        if args.json:
            print(assignment_text({Place(*each): held for each, held in plan.moves.items()}))
            return 0
        if found.ongoing and args.execute:
            raise UserError(
                f"{counted(len(found.ongoing), 'reassignment')} in progress: wait for the end, or"
                " cancel; `partitions reassign --list` prints them"
            )
        _print(found, plan)
        if args.execute:
            _execute(admin, found.layout, plan, args)
        elif plan.moves:
            print("Nothing has moved: add --execute to carry this out.")
    return 0


def planned(found: Survey, leaving: Collection[int], tolerance: float) -> Plan:
    """The plan. Raises UserError where a broker is unknown or down, or cannot be emptied."""
    layout = found.layout
    down = layout.brokers_missing()
    known = {*layout.racks, *down}
    unknown = sorted(set(leaving) - known)
    if unknown:
        raise UserError(f"there is no broker {unknown[0]}; there are: {listed(sorted(known))}")
    down = [broker for broker in down if broker not in leaving]
    if down:
        replicas = layout.loads()[down[0]].replicas
        raise UserError(
            f"broker {down[0]} is down and has {counted(replicas, 'replica')}: start it, or move"
            f" them to other brokers by --without {listed(down)}"
        )
    plan = plan_even(layout, [BrokerId(broker) for broker in leaving], tolerance=tolerance)
    if plan.stuck:
        raise UserError(
            f"{counted(len(plan.stuck), 'partition')} cannot leave: {few(plan.stuck)}; without"
            " leader, or no other live broker is left for them"
        )
    return plan


def _print(found: Survey, plan: Plan) -> None:
    layout = found.layout
    for remark in _remarks(found):
        print(f"warning: {remark}", file=sys.stderr)
    print_table(HEADINGS, load_rows(layout, plan.moves), right=RIGHT)
    print()
    if not plan.moves:
        print("This is as even as it can be: nothing to do.")
        return
    for line in (*move_lines(layout, plan.moves), summary(layout, plan.moves)):
        print(line)


def _remarks(found: Survey) -> list[str]:
    """What a plan could not take into account."""
    remarks = []
    layout = found.layout
    rackless = sorted(broker for broker, rack in layout.racks.items() if rack is None)
    if rackless and len(rackless) < len(layout.racks):
        remarks.append(f"brokers without a rack count as one of their own: {listed(rackless)}")
    if layout.fixed:
        count = counted(len(layout.fixed), "partition")
        remarks.append(f"{count} without leader cannot move: {few(layout.fixed)}")
    if found.silent:
        remarks.append(f"sizes are not known of replicas on brokers {listed(found.silent)}")
    if found.ongoing:
        count = counted(len(found.ongoing), "reassignment")
        remarks.append(f"planned as if {count} in progress had been completed")
    return remarks


def _execute(admin: Admin, layout: Layout, plan: Plan, args: argparse.Namespace) -> None:
    try:
        outcome = carry_out(
            admin,
            layout,
            plan.moves,
            at_once=args.at_once,
            throttle_bytes=args.throttle,
            report=_reporter(),
        )
    except KeyboardInterrupt:
        print(
            "interrupted: what has begun to move goes on (`partitions reassign --list`); the same"
            " command again does the rest, and removes the throttle",
            file=sys.stderr,
        )
        raise
    _print_outcome(outcome)


def _print_outcome(outcome: Outcome) -> None:
    if outcome.still_throttled:
        print(f"warning: {still_throttled(outcome.still_throttled)}", file=sys.stderr)
    if outcome.completed:
        print(f"{counted(outcome.completed, 'partition')} changed.")
    if outcome.failed:
        for line in failure_lines(outcome.failed):
            print(line)
        raise UserError(f"{counted(len(outcome.failed), 'partition')} could not be moved")


def _reporter() -> Callable[[Progress], None]:
    """Prints progress once a second, if there is any."""
    printed_at = time.monotonic()
    printed = ""

    def report(progress: Progress) -> None:
        nonlocal printed_at, printed
        line = progress_line(progress)
        if time.monotonic() - printed_at >= _REPORT_S and line != printed:
            printed_at, printed = time.monotonic(), line
            print(line, flush=True)

    return report


def _brokers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(not_negative(part.strip()) for part in text.split(",")))
